"""Task sets of SearchQA: questions of files, and generated ones.

A task's record is a FlashRAG row with its source, so task files hold questions as they are. The record of a
generated question names its world, which is made again from its seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_gym.core.tasks import ListTaskSet, MixedTaskSet, SeedTaskSet, Task, TaskSet, check_split
from agent_gym.envs.searchqa.data.generator import (
    QuestionSpec,
    WorldKey,
    WorldSpec,
    question_from_seed,
)
from agent_gym.envs.searchqa.data.library import generated_world
from agent_gym.envs.searchqa.questions.files import find_files, load_split
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.world.names import GeneratedSplit
from agent_gym.support.errors import ConfigError, suggest

GENERATED = "generated"
SPLIT_SIZES: Mapping[str, int] = {
    GeneratedSplit.TRAIN: 2**31,
    GeneratedSplit.VALID: 10_000,
    GeneratedSplit.TEST: 10_000,
}
"""Generated questions of each split."""
OTHER_WORLDS = 4
"""Worlds of the valid and of the test split."""
_CACHED = 4_096


@lru_cache(maxsize=_CACHED)
def _question(spec: QuestionSpec, key: WorldKey, seed: int) -> Question:
    return question_from_seed(generated_world(key), spec, seed)


def generated_split(name: str) -> GeneratedSplit:
    """Return the split of a name.

    Raises:
        ConfigError: Generated worlds have no such split.
    """
    return GeneratedSplit(check_split("generated SearchQA has", GeneratedSplit, name))


def task_of(question: Question, task_id: str, split: str) -> Task:
    """Return the task of a question; its type is the source, or shape and hops of a generated question."""
    metadata = question.metadata
    kind = f"{metadata.get('type')}-{metadata.get('hops')}" if "world" in metadata else question.source
    return Task(task_id, kind, split, question.to_record())


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedQuestions(SeedTaskSet):
    """Questions generated from their seeds when they are fetched; question n is about world n modulo the worlds.

    Attributes:
        spec: Which questions.
        world: Size and difficulty of the worlds.
        split: "train", "valid" or "test".
        worlds: Worlds of the split.
    """

    spec: QuestionSpec
    world: WorldSpec
    split: str
    worlds: int

    sizes = SPLIT_SIZES

    def __post_init__(self) -> None:
        generated_split(self.split)
        if isinstance(self.worlds, bool) or self.worlds < 1:
            raise ConfigError(f"worlds must be at least 1, got {self.worlds!r}")

    def settings_name(self) -> str:
        """Return the digest of the settings."""
        return self.spec.digest(self.world, self.worlds)

    def generate(self, task_id: str, seed: int) -> Task:
        """Return the question of a seed."""
        key = WorldKey(self.world, GeneratedSplit(self.split), seed % self.worlds)
        return task_of(_question(self.spec, key, seed // self.worlds), task_id, self.split)


def choose_tasks(questions: Any, split: str | None, weights: Mapping[str, float] | None) -> TaskSet:
    """Return the task set of question files.

    Args:
        questions: See `find_files`.
        split: See `load_split`.
        weights: Source -> how often it is drawn relative to the others; 1 where not given, 0 leaves one out. None
            draws every question equally often.

    Raises:
        ConfigError: There is no such split or source.
        DataError: A file is missing or malformed.
    """
    split, by_source = load_split(find_files(questions), split)
    parts = {source: _listed(rows, split) for source, rows in by_source.items()}
    if weights is None:
        tasks = [task for part in parts.values() for task in part]
        return next(iter(parts.values())) if len(parts) == 1 else ListTaskSet(tasks, split=split)
    for source in weights:
        if source not in parts:
            raise ConfigError(
                f"weights name the source {source!r}; there are {list(parts)}.{suggest(source, parts)}"
            )
    return MixedTaskSet(parts, {source: float(weights.get(source, 1)) for source in parts}, split=split)


def _listed(questions: Sequence[Question], split: str) -> ListTaskSet:
    return ListTaskSet(
        [task_of(question, f"{question.source}/{question.id}", split) for question in questions], split=split
    )

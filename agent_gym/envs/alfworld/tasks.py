"""Task sets of ALFWorld: games of a data folder and generated households.

A task's record is the content of a game file (or a generated record of the same kind), or
`{"game_file": path}` for a game that stays on disk until it is played. Both are JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_gym.core.data import resolve_data
from agent_gym.core.errors import ConfigError, DataError, suggest
from agent_gym.core.tasks import LazyTaskSet, SeedIds, Task, TaskSet
from agent_gym.envs.alfworld.game import Game, compile_game, load_game
from agent_gym.envs.alfworld.gamefile import GameRecord
from agent_gym.envs.alfworld.generator import GeneratedSplit, HouseholdSpec, household_from_seed
from agent_gym.envs.alfworld.goals import TaskType
from agent_gym.envs.alfworld.library import GameLibrary
from agent_gym.envs.alfworld.library import human_goals as _human_goals

SPLIT_SIZES = {GeneratedSplit.TRAIN: 2**31, GeneratedSplit.VALID: 1_000, GeneratedSplit.TEST: 1_000}
"""Generated households of each split."""
FILE_KEY = "game_file"
_CACHED = 512
_EXPECTED = "ALFWorld data: a folder that is or holds json_2.1.1 (alfworld-download fetches it)"


@lru_cache(maxsize=_CACHED)
def _household(spec: HouseholdSpec, split: GeneratedSplit, seed: int) -> dict[str, Any]:
    return household_from_seed(spec, split, seed)


@lru_cache(maxsize=_CACHED)
def _compiled_problem(problem: str, task: str) -> Game:
    return compile_game(GameRecord.from_mapping({"pddl_problem": problem, "task": task}))


@lru_cache(maxsize=_CACHED)
def _compiled_file(path: str, size: int, modified: int) -> Game:
    return load_game(Path(path))


def game_of(record: Mapping[str, Any]) -> Game:
    """Return the compiled game of a task record; compiled games are shared within the process.

    Raises:
        DataError: The record is no game.
    """
    if FILE_KEY in record:
        path = Path(record[FILE_KEY])
        try:
            stat = path.stat()
        except OSError as error:
            raise DataError(f"the game file {path} of this task cannot be read: {error}") from error
        return _compiled_file(str(path), stat.st_size, stat.st_mtime_ns)
    if "grammar" not in record and isinstance(record.get("task"), str) and "pddl_problem" in record:
        return _compiled_problem(record["pddl_problem"], record["task"])
    return compile_game(GameRecord.from_mapping(record))


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedHouseholds(TaskSet):
    """Households generated from their seeds when they are fetched; splits share no content.

    Attributes:
        spec: Size and difficulty.
        split: "train", "valid" or "test".
    """

    spec: HouseholdSpec
    split: str

    def __post_init__(self) -> None:
        names = [name.value for name in GeneratedSplit]
        if self.split not in names:
            raise ConfigError(
                f"generated ALFWorld has the splits {names}, got {self.split!r} (valid_seen and valid_unseen "
                f"belong to the real data, data=...).{suggest(self.split, names)}"
            )
        ids = SeedIds(f"gen/{self.spec.digest()}/{self.split}/", SPLIT_SIZES[GeneratedSplit(self.split)])
        object.__setattr__(self, "_ids", ids)

    @property
    def ids(self) -> SeedIds:
        """Ids `gen/<digest of the spec>/<split>/<seed>`."""
        ids: SeedIds = self._ids  # type: ignore[attr-defined]
        return ids

    def load(self, task_id: str) -> Task:
        """Generate the household of an id."""
        seed = self.ids.seed(task_id)
        assert seed is not None  # get() and __getitem__ pass known ids only
        record = _household(self.spec, GeneratedSplit(self.split), seed)
        return Task(task_id, record["task_type"], self.split, record)


@dataclass(frozen=True)
class _GameLoader:
    """Picklable loader of the games of a folder."""

    library: GameLibrary
    split: str

    def __call__(self, task_id: str) -> Task:
        entry = self.library.entry(task_id)
        return Task(task_id, entry.task_type.value, self.split, {FILE_KEY: str(entry.path)})


@lru_cache(maxsize=8)
def _library(folder: Path) -> GameLibrary:
    return GameLibrary(folder)


def choose_tasks(
    data: str | Path | None,
    split: str | None,
    spec: HouseholdSpec,
    task_types: Collection[TaskType],
    scenes: Sequence[str],
) -> TaskSet:
    """Return the task set that the environment's data arguments name.

    Args:
        data: Data folder, or None for generated households.
        split: Split; None is "train".
        spec: Households to generate.
        task_types: Keep these types only; empty keeps all.
        scenes: Keep these floor plans only; empty keeps all.

    Raises:
        ConfigError: The data have no such split, type or scene.
        DataError: The folder holds no games; the message says what to do.
    """
    split = split or "train"
    if data is None:
        if scenes:
            raise ConfigError("scenes= selects floor plans of the real data; give data= too")
        return GeneratedHouseholds(spec, split)
    library = _library(resolve_data(data, _EXPECTED))
    entries = library.select(split, task_types=task_types or None, scenes=scenes or None)
    return LazyTaskSet(tuple(entry.task_id for entry in entries), _GameLoader(library, split), split=split)


def human_goals(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the goal sentences that people wrote for a game on disk.

    Raises:
        ConfigError: The task is generated.
        DataError: The file beside the game has none.
    """
    if FILE_KEY not in record:
        raise ConfigError("goals='human' needs the real data (data=...): generated households have no human goals")
    return _human_goals(Path(record[FILE_KEY]).parent)

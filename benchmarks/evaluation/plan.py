"""What an evaluation plays: its settings, and the episodes that follow from them.

The plan is the first n tasks of a split (or a given list), once for each seed; each episode has a seed of its
own that derives from the evaluation's seed and the task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_gym.play.driver import EnvHandle
from agent_gym.play.request import EpisodeRequest, evaluation_requests
from agent_gym.support.arguments import check_arguments
from agent_gym.support.errors import ConfigError

EPISODES_SUFFIX = ".episodes.jsonl"
DEFAULT_EPISODES = 100


@dataclass(frozen=True)
class EvalConfig:
    """What is evaluated on, and how.

    Raises:
        ConfigError: A value is of another type or out of range, or options exclude each other.
    """

    env_id: str
    """Environment id, full or short."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, without `split` and `tasks`."""
    split: str = "test"
    """Split whose tasks are played."""
    episodes: int | None = None
    """Tasks played per seed, the first ones; None plays 100 of a split, and all of a list of tasks."""
    seeds: tuple[int, ...] = (0,)
    """Every task is played once per seed."""
    task_ids: tuple[str, ...] | None = None
    """Tasks to play instead of the first ones; ids of the split."""
    task_file: str | None = None
    """Task file (see `agent_gym.core.tasks.save_tasks`) to play instead of a split."""
    max_turns: int | None = None
    """Turn limit; that of the options, else the environment's own, when None."""
    parallel: int = 64
    """Most episodes running at once."""
    workers: int = 0
    """Processes that run environments; 0 keeps them in this one."""
    device: str = "auto"
    """Device of local models."""
    agent_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the agent by name, see `benchmarks.evaluation.agents.play_options`."""
    output: Path | None = None
    """Result file; episodes go beside it. None writes nothing."""
    resume: bool = False
    """Go on with the evaluation in `output`, if there is one."""

    def __post_init__(self) -> None:
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        check_arguments(type(self).__name__, type(self), values, typed=False)
        if isinstance(self.output, str):
            object.__setattr__(self, "output", Path(self.output))
        for name, least in (("episodes", 1), ("parallel", 1), ("workers", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, got {value}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(f"seeds must be different numbers, at least one; got {list(self.seeds)}")
        for name in ("split", "tasks"):
            if name in self.options:
                raise ConfigError(f"the environment option {name!r} has a setting of its own; use that")
        if self.task_ids is not None and self.task_file is not None:
            raise ConfigError("give either a list of task ids or a task file, not both")
        if self.resume and self.output is None:
            raise ConfigError("resume needs the result file of the evaluation to go on with: give --output")

    def env_options(self) -> dict[str, Any]:
        """Return all arguments of the environment."""
        options = dict(self.options)
        if self.task_file is None:
            options["split"] = self.split
        else:
            options["tasks"] = self.task_file
        if self.max_turns is not None:
            options["max_turns"] = self.max_turns
        return options

    @property
    def episodes_path(self) -> Path | None:
        """File of the played episodes."""
        return None if self.output is None else self.output.with_suffix(EPISODES_SUFFIX)


def make_plan(config: EvalConfig, task_ids: Sequence[str]) -> list[EpisodeRequest]:
    """Return every task once per seed, seed by seed."""
    return [request for seed in config.seeds for request in evaluation_requests(task_ids, seed)]


def chosen_tasks(config: EvalConfig, handle: EnvHandle) -> list[str]:
    """Return the ids of the tasks played.

    Raises:
        ConfigError: The list of ids holds one twice.
        UnknownTaskError: The environment does not know one.
    """
    tasks = handle.env.tasks
    if config.task_ids is None:
        listed = config.task_file is not None
        count = config.episodes or (len(tasks.ids) if listed else DEFAULT_EPISODES)
        return list(tasks.ids[: min(count, len(tasks.ids))])
    ids = config.task_ids[: config.episodes]
    if len(set(ids)) != len(ids):
        raise ConfigError("the list of task ids holds an id twice; use several seeds to play a task again")
    for task_id in ids:
        tasks.get(task_id)  # raises with near ids
    return list(ids)


def shortfall(config: EvalConfig, handle: EnvHandle) -> str:
    """Return a sentence for an evaluation that asks for more tasks than there are, "" for others."""
    wanted = config.episodes or 0
    if config.task_ids is not None:
        source, count = "list", len(config.task_ids)
    else:
        source, count = "split" if config.task_file is None else "task file", len(handle.env.tasks.ids)
    if count >= wanted:
        return ""
    return (
        f"the {source} has {count:,} tasks: all of them are played" if count > 1 else f"the {source} has one task"
    )

"""Tasks and ordered sets of tasks.

A task is what `reset` starts: an id, a category, a split and the record that the environment plays. A task
set holds the tasks of one split in a fixed order, so that "task 17 of test" means the same on every machine.
Sets may be lazy: ids are cheap, records are read or generated when a task is fetched.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np

from agent_gym.support.errors import ConfigError, DataError, UnknownTaskError, suggest
from agent_gym.support.seeding import stable_hash

_NEAREST_AMONG = 2000  # ids looked at for a "did you mean": enough to help, bounded for a million tasks


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        id: Stable name, `<source>/<name>`; equal on every machine.
        type: Category for per-type success tables.
        split: Name of the split that the task belongs to.
        record: What the environment plays; read-only. JSON-able if the task is to be saved.
    """

    id: str
    type: str
    split: str
    record: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Task:
        return self  # read-only: copies of an environment share it


class TaskSet(Sequence[Task]):
    """Ordered, read-only collection of the tasks of one split.

    Subclasses give `ids` (a cheap sequence) and `load`.
    """

    split: str
    weighted: bool = False
    """Whether `sample` prefers some tasks; an epoch over `ids` would lose that."""
    generated: bool = False
    """Whether an id says all of its task, as those of generated tasks do, which name settings and seed."""

    @property
    @abstractmethod
    def ids(self) -> Sequence[str]:
        """Task ids in their fixed order."""

    @abstractmethod
    def load(self, task_id: str) -> Task:
        """Return the task of an id that the set holds."""

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, task: object) -> bool:
        return (task.id if isinstance(task, Task) else task) in self.ids

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskSet: ...
    def __getitem__(self, index: int | slice) -> Task | TaskSet:
        if isinstance(index, slice):
            return self.subset(self.ids[index])
        return self.load(self.ids[index])

    def get(self, task_id: str) -> Task:
        """Return a task by id.

        Raises:
            UnknownTaskError: The set does not hold the id; the message names near ones.
        """
        if task_id in self.ids:
            return self.load(task_id)
        some = self.ids[: min(len(self.ids), _NEAREST_AMONG)]
        hint = suggest(task_id, some) or f" Known ids look like {some[0]!r}." if len(some) else ""
        raise UnknownTaskError(
            f"no task {task_id!r} among the {len(self.ids):,} tasks of split {self.split!r}.{hint}"
        )

    def sample(self, rng: np.random.Generator) -> Task:
        """Return a task drawn uniformly with `rng`."""
        return self[int(rng.integers(len(self.ids)))]

    def subset(self, ids: Iterable[str]) -> TaskSet:
        """Return the tasks of `ids`, in the order given, still lazy."""
        return LazyTaskSet(tuple(ids), self.load, split=self.split, generated=self.generated)

    def digest(self) -> str:
        """Return a hash of the ids in order; `TextEnv.tasks_digest` covers what stands behind them too."""
        ids = self.ids
        if isinstance(ids, SeedIds):  # may stand for billions of ids
            return stable_hash(self.split, ids.prefix, ids.size, size=16)
        return stable_hash(self.split, *ids, size=16)

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSet:
        return self  # read-only: copies of an environment share it

    def __repr__(self) -> str:
        return f"{type(self).__name__}(split={self.split!r}, {len(self):,} tasks)"


class ListTaskSet(TaskSet):
    """Task set over tasks that are already in memory.

    Args:
        tasks: The tasks, in order; ids must differ.
        split: Name of the split; taken from the first task when None.
    """

    def __init__(self, tasks: Iterable[Task], *, split: str | None = None) -> None:
        self._tasks: dict[str, Task] = {}
        for task in tasks:
            if task.id in self._tasks:
                raise DataError(f"task id {task.id!r} occurs twice; ids must be unique within a task set")
            self._tasks[task.id] = task
        if not self._tasks:
            raise DataError("a task set needs at least one task, got none")
        self._ids = tuple(self._tasks)
        self.split = split if split is not None else self._tasks[self._ids[0]].split

    @property
    def ids(self) -> Sequence[str]:
        """Task ids in their fixed order."""
        return self._ids

    def load(self, task_id: str) -> Task:
        """Return the task of an id that the set holds."""
        return self._tasks[task_id]

    def __contains__(self, task: object) -> bool:
        return (task.id if isinstance(task, Task) else task) in self._tasks

    def get(self, task_id: str) -> Task:
        """Return a task by id; see `TaskSet.get`."""
        found = self._tasks.get(task_id)
        return found if found is not None else super().get(task_id)


class LazyTaskSet(TaskSet):
    """Task set whose tasks are loaded one by one.

    Args:
        ids: Task ids in order; must be unique.
        load: Picklable function from an id to its task.
        split: Name of the split.
        generated: Whether an id says all of its task.
    """

    def __init__(
        self, ids: Sequence[str], load: Callable[[str], Task], *, split: str, generated: bool = False
    ) -> None:
        if not len(ids):
            raise DataError(f"split {split!r} holds no task")
        self._ids = ids
        self._known = frozenset(ids) if isinstance(ids, (tuple, list)) else None
        self._load = load
        self.split = split
        self.generated = generated

    @property
    def ids(self) -> Sequence[str]:
        """Task ids in their fixed order."""
        return self._ids

    def __contains__(self, task: object) -> bool:
        task_id = task.id if isinstance(task, Task) else task
        return task_id in (self._known if self._known is not None else self._ids)

    def load(self, task_id: str) -> Task:
        """Return the task of an id that the set holds."""
        return self._load(task_id)


class MixedTaskSet(ListTaskSet):
    """Task set of several sources that are drawn with given weights.

    Args:
        parts: Source -> its tasks.
        weights: Source -> how often it is drawn relative to the others; 0 leaves it out.
        split: Name of the split.

    Raises:
        DataError: No source has a weight above 0, or a weight is negative.
    """

    weighted = True

    def __init__(self, parts: Mapping[str, TaskSet], weights: Mapping[str, float], *, split: str) -> None:
        if any(not 0 <= weights[name] < float("inf") for name in parts) or not any(weights[name] for name in parts):
            raise DataError(f"weights must be at least 0, and one above 0, got {dict(weights)}")
        self._parts = [part for name, part in parts.items() if weights[name]]
        self._bounds = list(accumulate(float(weights[name]) for name in parts if weights[name]))
        super().__init__((task for part in self._parts for task in part), split=split)

    def sample(self, rng: np.random.Generator) -> Task:
        """Return a task: a source drawn by weight, then one of its tasks drawn uniformly."""
        place = bisect_right(self._bounds, float(rng.random()) * self._bounds[-1])
        return self._parts[min(place, len(self._parts) - 1)].sample(rng)


class SeedIds(Sequence[str]):
    """The ids `<prefix>0`, `<prefix>1`, ... of generated tasks, without holding them.

    Args:
        prefix: Text before the seed.
        size: Number of ids.
    """

    def __init__(self, prefix: str, size: int) -> None:
        self.prefix = prefix
        self.size = size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(f"{self.prefix}{seed}" for seed in range(*index.indices(self.size)))
        if not -self.size <= index < self.size:
            raise IndexError(index)
        return f"{self.prefix}{index % self.size}"

    def __contains__(self, item: object) -> bool:
        return self.seed(item) is not None

    def seed(self, item: object) -> int | None:
        """Return the seed of an id, or None if it is not one of these ids."""
        if not isinstance(item, str) or not item.startswith(self.prefix):
            return None
        digits = item[len(self.prefix) :]
        if not (digits.isascii() and digits.isdecimal()) or (len(digits) > 1 and digits[0] == "0"):
            return None
        value = int(digits) if len(digits) < 20 else self.size
        return value if value < self.size else None


class SeedTaskSet(TaskSet):
    """Task set whose tasks are generated from their seeds when they are fetched.

    A subclass is a frozen dataclass of the settings and `split`, and says how settings are named in ids and how a
    task is generated. Whoever makes one checks the split with `check_split`.

    Attributes:
        split: Name of the split.
        sizes: Split -> number of its tasks.
    """

    generated = True
    sizes: ClassVar[Mapping[str, int]]

    @abstractmethod
    def settings_name(self) -> str:
        """Return what names the settings in ids, the same for equal settings only."""

    @abstractmethod
    def generate(self, task_id: str, seed: int) -> Task:
        """Return the task of a seed."""

    @cached_property
    def ids(self) -> SeedIds:
        """Ids `gen/<settings>/<split>/<seed>`."""
        return SeedIds(f"gen/{self.settings_name()}/{self.split}/", self.sizes[self.split])

    def load(self, task_id: str) -> Task:
        """Generate the task of an id."""
        seed = self.ids.seed(task_id)
        assert seed is not None  # get() and __getitem__ pass known ids only
        return self.generate(task_id, seed)


def check_split(source: str, splits: Iterable[str], given: str, note: str = "") -> str:
    """Return the split that a user named.

    Args:
        source: What has the splits, with its verb: "generated Sokoban has".
        splits: Names of the splits.
        given: What the user gave.
        note: Where other splits are, for the message.

    Raises:
        ConfigError: There is no such split; the message lists all.
    """
    names = [str(name) for name in splits]
    if given not in names:
        raise ConfigError(
            f"{source} the splits {names}, got {given!r}{f' ({note})' if note else ''}.{suggest(given, names)}"
        )
    return given


def save_tasks(path: str | Path, tasks: Iterable[Task]) -> None:
    """Write tasks as JSON lines: one object with id, type, split and record a line."""
    with Path(path).open("w", encoding="utf-8") as stream:
        for task in tasks:
            row = {"id": task.id, "type": task.type, "split": task.split, "record": task.record}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def load_tasks(path: str | Path) -> ListTaskSet:
    """Read tasks that `save_tasks` wrote.

    Raises:
        DataError: The file is missing, or a line is not a task; the message names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no task file at {path}; expected JSON lines as `save_tasks` writes them")
    tasks = []
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                tasks.append(Task(str(row["id"]), str(row["type"]), str(row["split"]), row["record"]))
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"{path}, line {number}: expected an object with id, type, split and record ({error})"
                ) from error
    return ListTaskSet(tasks)

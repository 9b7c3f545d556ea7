"""Task sets of Sokoban: generated rooms, Boxoban folders, XSB files and lists of levels.

A task's record is the level's XSB text, so task files hold it as it is and `reset(options={"task": text})`
plays any level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent_gym.core.tasks import LazyTaskSet, ListTaskSet, SeedTaskSet, Task, TaskSet, check_split
from agent_gym.envs.sokoban.data.generator import RoomSpec, room_from_seed
from agent_gym.envs.sokoban.data.levels import LevelFiles
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.support.data import resolve_data
from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.seeding import derive_seed

GENERATED = "generated"
SPLIT_SIZES: Mapping[str, int] = {"train": 2**31, "valid": 10_000, "test": 10_000}
"""Generated rooms of each split."""
ALL = "all"
"""Split of a file or list of levels that has no splits of its own."""
_SHARES = (("test", 10), ("valid", 20), ("train", 100))  # upper bounds in per cent, by a hash of the room
_CACHED_ROOMS = 4_096

_EXPECTED = "a Boxoban folder, a level file (.txt, .xsb, .sok, optionally .gz or .xz) or a folder of them"


@lru_cache(maxsize=_CACHED_ROOMS)
def _room(spec: RoomSpec, split: str, seed: int) -> str:
    return room_from_seed(spec, split, seed).to_xsb()


def _size(spec: RoomSpec) -> str:
    return f"{spec.height}x{spec.width}-{spec.boxes}"


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedRooms(SeedTaskSet):
    """Rooms generated from their seeds when they are fetched.

    Splits never share a room, not even rotated or mirrored: a room's content decides its split.

    Attributes:
        spec: Size, boxes and difficulty.
        split: "train", "valid" or "test".
    """

    spec: RoomSpec
    split: str

    sizes = SPLIT_SIZES

    def __post_init__(self) -> None:
        check_split("generated Sokoban has", SPLIT_SIZES, self.split)

    def settings_name(self) -> str:
        """Return size, boxes and limits: `6x6-1`, with limits `6x6-1-p3to8-m15`."""
        spec = self.spec
        name = _size(spec) + ("-open" if spec.open_floor else "")
        if spec.min_pushes is not None or spec.max_pushes is not None:
            low = "" if spec.min_pushes is None else spec.min_pushes
            high = "" if spec.max_pushes is None else spec.max_pushes
            name += f"-p{low}to{high}"
        return name if spec.max_moves is None else f"{name}-m{spec.max_moves}"

    def generate(self, task_id: str, seed: int) -> Task:
        """Return the room of a seed."""
        return Task(task_id, _size(self.spec), self.split, _room(self.spec, self.split, seed))


@dataclass(frozen=True)
class _LevelLoader:
    """Picklable loader of levels from files."""

    files: LevelFiles
    split: str

    def __call__(self, task_id: str) -> Task:
        kind = task_id.partition("/")[0] if "/" in task_id else task_id.partition("#")[0]
        return Task(task_id, kind, self.split, self.files.read(task_id).to_xsb())


def choose_tasks(
    levels: str | Path | Sequence[str], split: str | None, spec: RoomSpec, collection: str | None = None
) -> TaskSet:
    """Return the task set that the environment's data arguments name.

    Args:
        levels: "generated", a path, or a list of XSB strings.
        split: Split name; None means "train" where the data have splits and "all" where they have none.
        spec: Rooms to generate.
        collection: Boxoban collection to restrict a Boxoban folder to.

    Raises:
        ConfigError: The data have no such split or collection.
        DataError: The data are missing or malformed.
    """
    if isinstance(levels, (str, Path)) and str(levels) == GENERATED:
        if collection is not None:
            raise ConfigError(f"collection={collection!r} selects from a Boxoban folder; give levels= its path")
        return GeneratedRooms(spec, split or "train")
    if isinstance(levels, (str, Path)):
        files = LevelFiles(resolve_data(levels, _EXPECTED))
        if collection is not None:
            files = files.select(collection=collection)
        if any(files.splits):
            files = files.select(split=None if split == ALL else split or "train")
            return LazyTaskSet(files, _LevelLoader(files, split or "train"), split=split or "train")
        wanted = split or ALL
        ids = _share(list(files), wanted, files.read)
        return LazyTaskSet(ids, _LevelLoader(files, wanted), split=wanted)
    return _list_tasks(levels, split or ALL)


def _list_tasks(levels: Sequence[str], split: str) -> TaskSet:
    if isinstance(levels, str) or not all(isinstance(text, str) for text in levels):
        raise ConfigError("levels must be 'generated', a path or a list of XSB strings")
    if not levels:
        raise DataError("levels is an empty list; give at least one XSB string")
    rooms: dict[str, Level] = {}
    for number, text in enumerate(levels):
        try:
            rooms[f"list#{number}"] = Level.from_xsb(text)
        except DataError as error:
            raise DataError(f"levels[{number}]: {error}") from error
    wanted = _share(rooms, split, rooms.__getitem__)
    return ListTaskSet([Task(name, "list", split, rooms[name].to_xsb()) for name in wanted], split=split)


def _share(ids: Iterable[str], split: str, room: Callable[[str], Level]) -> tuple[str, ...]:
    """Return the ids that belong to a split: all of them, or a fixed share by a hash of the room's content.

    Copies of a room, rotated and mirrored ones too, belong to one split.
    """
    if split == ALL:
        return tuple(ids)
    names = [name for name, _ in _SHARES]
    check_split("levels without splits of their own have", [*reversed(names), ALL], split)
    chosen = tuple(level for level in ids if _bucket(room(level)) == split)
    if not chosen:
        raise DataError(f"split {split!r} of these levels is empty; use split='all' for small collections")
    return chosen


def _bucket(room: Level) -> str:
    percent = derive_seed("sokoban split", room.content_key()) % 100
    return next(name for name, bound in _SHARES if percent < bound)

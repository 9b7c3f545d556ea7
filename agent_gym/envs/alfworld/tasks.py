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

from agent_gym.core.tasks import LazyTaskSet, SeedTaskSet, Task, TaskSet, check_split
from agent_gym.envs.alfworld.data.generator import GeneratedSplit, HouseholdSpec, household_from_seed
from agent_gym.envs.alfworld.data.index import TRAJECTORY_FILE
from agent_gym.envs.alfworld.data.library import GameLibrary, shared_game
from agent_gym.envs.alfworld.data.library import human_goals as read_human_goals
from agent_gym.envs.alfworld.world.game import Game, compile_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, read_game_content
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.data import resolve_data
from agent_gym.support.errors import ConfigError, DataError

SPLIT_SIZES: Mapping[str, int] = {
    GeneratedSplit.TRAIN: 2**31,
    GeneratedSplit.VALID: 1_000,
    GeneratedSplit.TEST: 1_000,
}
"""Generated households of each split."""
FILE_KEY = "game_file"
_CACHED = 256
"""Generated households, and games compiled from records, kept per process (36 kilobytes each at the usual size)."""
_SENTENCES = 4096
"""Games whose human goals are kept."""
_EXPECTED = "ALFWorld data: a folder that is or holds json_2.1.1 (alfworld-download fetches it)"


@lru_cache(maxsize=_CACHED)
def _household(spec: HouseholdSpec, split: GeneratedSplit, seed: int) -> dict[str, Any]:
    return household_from_seed(spec, split, seed)


@lru_cache(maxsize=_CACHED)
def _compiled(record: GameRecord) -> Game:
    return compile_game(record)


@lru_cache(maxsize=_SENTENCES)
def _sentences(folder: Path, modified: int) -> tuple[str, ...]:
    return read_human_goals(folder)


def game_of(record: Any) -> Game:
    """Return the compiled game of a task record; compiled games are shared within the process.

    Raises:
        DataError: The record is no game.
    """
    path = _file_of(record)
    if path is None:
        return _compiled(GameRecord.from_mapping(record))
    try:
        stat = path.stat()
    except OSError as error:
        raise DataError(f"the game file {path} of this task cannot be read: {error.strerror or error}") from error
    return shared_game(path, (stat.st_size, stat.st_mtime_ns))


def game_content(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a task record's game file: the record itself unless it names a file.

    Raises:
        DataError: The file cannot be read.
    """
    path = _file_of(record)
    return record if path is None else read_game_content(path)


def _file_of(record: Any) -> Path | None:
    """Return the file that a record names, None for a record that is the game itself."""
    if not isinstance(record, Mapping):
        raise DataError(
            f"an ALFWorld task record is a game file's content or {{{FILE_KEY!r}: path}}, got "
            f"{type(record).__name__}"
        )
    if FILE_KEY not in record:
        return None
    path = record[FILE_KEY]
    if not isinstance(path, str | Path):
        raise DataError(f"an ALFWorld task record's {FILE_KEY!r} must be a path, got {type(path).__name__}")
    return Path(path)


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedHouseholds(SeedTaskSet):
    """Households generated from their seeds when they are fetched; splits share no content.

    Attributes:
        spec: Size and difficulty.
        split: "train", "valid" or "test".
    """

    spec: HouseholdSpec
    split: str

    sizes = SPLIT_SIZES

    def __post_init__(self) -> None:
        note = "valid_seen and valid_unseen belong to the real data, data=..."
        check_split("generated ALFWorld has", GeneratedSplit, self.split, note)

    def settings_name(self) -> str:
        """Return the digest of the specification."""
        return self.spec.digest()

    def generate(self, task_id: str, seed: int) -> Task:
        """Return the household of a seed."""
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
    library = _library(resolve_data(data, _EXPECTED).absolute())
    entries = library.select(split, task_types=task_types or None, scenes=scenes or None)
    return LazyTaskSet(tuple(entry.task_id for entry in entries), _GameLoader(library, split), split=split)


def human_goals(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the goal sentences that people wrote for a game on disk.

    Raises:
        ConfigError: The task is generated.
        DataError: The file beside the game has none.
    """
    path = _file_of(record)
    if path is None:
        raise ConfigError("goals='human' needs the real data (data=...): generated households have no human goals")
    folder = path.parent
    try:
        modified = (folder / TRAJECTORY_FILE).stat().st_mtime_ns
    except OSError:
        return read_human_goals(folder)  # which says what is wrong
    return _sentences(folder, modified)

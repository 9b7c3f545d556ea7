"""The games of a data folder as a collection: select, look up, compile on demand.

Compiled games are shared by everything in the process, so a hundred environments on one folder hold each game
once.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Final

from agent_gym.envs.alfworld.data.index import GameEntry, build_index, read_trajectory
from agent_gym.envs.alfworld.world.game import Game, load_game
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.errors import AgentGymWarning, ConfigError, DataError, UnknownTaskError, suggest

_SHARED_GAMES: Final = 1024
"""Compiled games kept per process; each takes some 50 kilobytes."""


class GameLibrary:
    """Playable games of one data folder.

    Args:
        folder: A folder that is or holds `json_2.1.1`.
        cache: Folder of the index cache; None takes the user's.

    Attributes:
        root: The folder that holds the splits.
        entries: All playable games by split and name.
        left_out: Number of games left out, by reason.

    Raises:
        DataError: The folder is not ALFWorld data or holds no playable game.
    """

    def __init__(self, folder: str | Path, *, cache: Path | None = None) -> None:
        index = build_index(folder, cache)
        self.root = index.root
        self.entries = index.entries
        self.left_out = index.left_out
        self._by_id = {entry.task_id: entry for entry in index.entries}
        if index.broken:
            warnings.warn(
                f"{len(index.broken)} game files cannot be read and are left out; first: {index.broken[0]}",
                AgentGymWarning,
                stacklevel=2,
            )

    @property
    def splits(self) -> dict[str, int]:
        """Number of games of each split."""
        sizes: dict[str, int] = {}
        for entry in self.entries:
            sizes[entry.split] = sizes.get(entry.split, 0) + 1
        return sizes

    def select(
        self,
        split: str,
        *,
        task_types: Collection[TaskType] | None = None,
        scenes: Collection[str] | None = None,
    ) -> tuple[GameEntry, ...]:
        """Return the games of a split.

        Args:
            split: Name of a split's folder: "train", "valid_seen", "valid_unseen".
            task_types: Keep games of these types only.
            scenes: Keep games of these floor plans only, given as text ("10").

        Returns:
            The games by name.

        Raises:
            ConfigError: No such split, or nothing is left of it.
        """
        sizes = self.splits
        if split not in sizes:
            known = ", ".join(f"{name} ({count} games)" for name, count in sizes.items())
            raise ConfigError(f"no split {split!r} in {self.root}; it has {known}.{suggest(split, sizes)}")
        chosen = tuple(
            entry
            for entry in self.entries
            if entry.split == split
            and (task_types is None or entry.task_type in task_types)
            and (scenes is None or entry.scene in scenes)
        )
        if not chosen:
            in_split = [entry for entry in self.entries if entry.split == split]
            scenes_there = sorted({entry.scene for entry in in_split}, key=lambda scene: (len(scene), scene))
            types_there = sorted({str(entry.task_type) for entry in in_split})
            raise ConfigError(
                f"none of the {len(in_split)} games of split {split!r} is of the task types and scenes asked "
                f"for; it has types {', '.join(types_there)} and scenes {', '.join(scenes_there)}"
            )
        return chosen

    def entry(self, task_id: str) -> GameEntry:
        """Return the game of a task id.

        Args:
            task_id: `<split>/<task folder>/<trial folder>`.

        Returns:
            The game's entry.

        Raises:
            UnknownTaskError: No such game; the message names the nearest ids.
        """
        entry = self._by_id.get(task_id)
        if entry is None:
            near = suggest(task_id, self._by_id)
            raise UnknownTaskError(f"no game {task_id!r} in {self.root} ({len(self._by_id)} games).{near}")
        return entry

    def game(self, entry: GameEntry) -> Game:
        """Return a compiled game, shared within the process.

        Args:
            entry: One of the library's entries.

        Returns:
            The game.

        Raises:
            DataError: The file cannot be played; the message names it.
        """
        return shared_game(entry.path, entry.stamp)

    def human_goals(self, entry: GameEntry) -> tuple[str, ...]:
        """Return the goal sentences that people wrote for a game.

        Args:
            entry: One of the library's entries.

        Returns:
            At least one sentence, in file order.

        Raises:
            DataError: The game's `traj_data.json` is missing, malformed or has no annotation.
        """
        return human_goals(entry.folder)


def human_goals(folder: Path) -> tuple[str, ...]:
    """Return the goal sentences that people wrote for the game of a trial folder; see `GameLibrary.human_goals`."""
    content = read_trajectory(folder)
    try:
        rows = content["turk_annotations"]["anns"]
        sentences = tuple(row["task_desc"].strip() for row in rows if row["task_desc"].strip())
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder}: traj_data.json lacks turk_annotations.anns[].task_desc ({error!r})") from error
    if not sentences:
        raise DataError(f"{folder}: traj_data.json has no human goal sentence; use the game's own")
    return sentences


@lru_cache(maxsize=_SHARED_GAMES)
def shared_game(path: Path, stamp: tuple[int, int]) -> Game:
    """Return the compiled game of a file, one per process.

    Args:
        path: A game file.
        stamp: Size in bytes and modification time in nanoseconds of the file; a changed file is read again.

    Raises:
        DataError: The file cannot be played; the message names it.
    """
    return load_game(path)

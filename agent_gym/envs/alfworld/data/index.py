"""Which games a data folder holds.

The folder has the original layout, `<split>/<task>-<object>-<mrecep>-<target>-<scene>/<trial>/game.tw-pddl`.
The same games are left out as in the original environment: those with "movable" or "Sliced" in their path and
those not marked solvable. Order is by name, never by the file system.

Reading every file takes seconds, so what was read is kept in the user's cache folder with each file's size
and time. A changed file is read again; an unreadable cache is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent_gym.envs.alfworld.world.gamefile import read_game_content
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support import data
from agent_gym.support.errors import DataError

GAME_FILE: Final = "game.tw-pddl"
TRAJECTORY_FILE: Final = "traj_data.json"
RELEASE_GLOB: Final = "json_2.1.*"

_CACHE_VERSION: Final = 1
_LEFT_OUT: Final = ("movable", "Sliced")
_MAX_TRAJECTORY_BYTES: Final = 64_000_000
_SPLITS: Final = ("train", "valid_seen", "valid_unseen")


@dataclass(frozen=True)
class GameEntry:
    """One playable game of a data folder.

    Attributes:
        task_id: `<split>/<task folder>/<trial folder>`.
        split: Name of the split's folder.
        task_type: Type of the task.
        scene: Number of the floor plan, as text ("10", "308").
        folder: Folder of the game's files.
        stamp: Size in bytes and modification time in nanoseconds of the game file.
    """

    task_id: str
    split: str
    task_type: TaskType
    scene: str
    folder: Path
    stamp: tuple[int, int]

    @property
    def path(self) -> Path:
        """The game file."""
        return self.folder / GAME_FILE


@dataclass(frozen=True)
class GameIndex:
    """All games of a data folder.

    Attributes:
        root: The folder that holds the splits.
        entries: Playable games by split and name.
        left_out: Number of games left out, by reason.
        broken: Files that cannot be read, each with the reason.
    """

    root: Path
    entries: tuple[GameEntry, ...]
    left_out: dict[str, int]
    broken: tuple[str, ...]


def find_data_root(folder: str | Path) -> Path:
    """Return the folder that holds the splits.

    Args:
        folder: A folder that is, or holds, `json_2.1.1` (or a later release).

    Returns:
        The folder of the split folders.

    Raises:
        DataError: No such folder; the message says where it looked and how to get the data.
    """
    path = Path(folder).expanduser()
    remedy = (
        "Fetch the games with `alfworld-download --data-dir FOLDER` (package alfworld), then give FOLDER as "
        "`data=` or in AGENT_GYM_DATA; without `data=` generated households are played."
    )
    if not path.is_dir():
        raise DataError(
            f"ALFWorld data folder {path} {'is not a folder' if path.exists() else 'is missing'}. {remedy}"
        )
    if any((path / split).is_dir() for split in _SPLITS):
        return path
    releases = sorted(child for child in path.glob(RELEASE_GLOB) if child.is_dir())
    if releases:
        return releases[-1]
    found = sorted(child.name for child in path.iterdir())[:6]
    raise DataError(
        f"{path} is not ALFWorld data: expected a folder {RELEASE_GLOB} in it, or the folders "
        f"{', '.join(_SPLITS)}; found {', '.join(found) or 'nothing'}. {remedy}"
    )


def cache_folder() -> Path:
    """Return the user's cache folder for game indexes; AGENT_GYM_CACHE moves it."""
    return data.cache_folder("alfworld")


def build_index(folder: str | Path, cache: Path | None = None) -> GameIndex:
    """List the playable games of a data folder.

    Args:
        folder: See `find_data_root`.
        cache: Folder of the index cache; None takes the user's.

    Returns:
        The index.

    Raises:
        DataError: The folder is not ALFWorld data or holds no playable game; the message says what was found.
    """
    root = find_data_root(folder)
    store = (cache if cache is not None else cache_folder()) / _cache_name(root)
    known = _read_cache(store, root)
    seen: dict[str, list[Any]] = {}
    entries: list[GameEntry] = []
    left_out: dict[str, int] = {}
    broken: list[str] = []
    for split, task, trial, size, modified in _game_files(root):
        if any(word in task or word in trial for word in _LEFT_OUT):
            left_out["movable or sliced"] = left_out.get("movable or sliced", 0) + 1
            continue
        task_id = f"{split}/{task}/{trial}"
        row = known.get(task_id)
        if row is None or row[:2] != [size, modified]:
            row = [size, modified, *_inspect(root / split / task / trial, task)]
        seen[task_id] = row
        verdict, kind = row[2], row[3]
        if verdict == "ok":
            scene = task.rpartition("-")[2]
            folder_path = root / split / task / trial
            entries.append(
                GameEntry(
                    task_id,
                    split,
                    task_type=TaskType(kind),
                    scene=scene,
                    folder=folder_path,
                    stamp=(size, modified),
                )
            )
        elif verdict.startswith("broken: "):
            broken.append(verdict.removeprefix("broken: "))
        else:
            left_out[verdict] = left_out.get(verdict, 0) + 1
    if seen != known:
        _write_cache(store, root, seen)
    if not entries:
        raise DataError(_nothing_found(root, left_out, broken))
    return GameIndex(root, tuple(entries), left_out, tuple(broken))


def read_trajectory(folder: Path) -> dict[str, Any]:
    """Read the `traj_data.json` beside a game.

    Args:
        folder: The game's trial folder.

    Returns:
        Its content.

    Raises:
        DataError: The file is missing or malformed.
    """
    return _read_trajectory(folder / TRAJECTORY_FILE)


def _game_files(root: Path) -> Iterator[tuple[str, str, str, int, int]]:
    """Yield (split, task folder, trial folder, size, time in ns) of every game file, ordered by name."""
    for split in _folders(root):
        for task in _folders(split.path):
            for trial in _folders(task.path):
                try:
                    stat = os.stat(os.path.join(trial.path, GAME_FILE))
                except OSError:
                    continue
                yield split.name, task.name, trial.name, stat.st_size, stat.st_mtime_ns


def _folders(path: str | Path) -> list[os.DirEntry[str]]:
    with os.scandir(path) as items:
        return sorted((item for item in items if item.is_dir()), key=lambda item: item.name)


def _inspect(folder: Path, task: str) -> tuple[str, str]:
    """Return the verdict on one game ("ok", a reason to leave it out, "broken: ...") and its task type."""
    try:
        content = read_game_content(folder / GAME_FILE)
        kind = task.partition("-")[0]
        if kind not in _TYPES:
            kind = str(_read_trajectory(folder / TRAJECTORY_FILE).get("task_type"))
    except DataError as error:
        return f"broken: {error}", ""
    if kind not in _TYPES:
        return "unknown task type", ""
    if content.get("solvable") is not True:
        return "not marked solvable", kind
    return "ok", kind


_TYPES: Final = frozenset(str(kind) for kind in TaskType)


def _read_trajectory(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_TRAJECTORY_BYTES:
            raise DataError(f"{path} is larger than {_MAX_TRAJECTORY_BYTES:,} bytes")
        content = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a JSON {type(content).__name__}; expected an object")
    return content


def _cache_name(root: Path) -> str:
    return f"index-{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]}.json"


def _read_cache(store: Path, root: Path) -> dict[str, list[Any]]:
    """Return the rows of a cache file; none when it is absent, of another folder, or damaged."""
    try:
        content = json.loads(store.read_text(encoding="utf-8"))
        if content["version"] != _CACHE_VERSION or content["root"] != str(root.resolve()):
            return {}
        rows: dict[str, list[Any]] = content["games"]
        for row in rows.values():
            size, modified, verdict, kind = row
            if type(size) is not int or type(modified) is not int or not isinstance(verdict, str):
                return {}
            if kind not in _TYPES and not (kind == "" and verdict != "ok"):
                return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return rows


def _write_cache(store: Path, root: Path, rows: dict[str, list[Any]]) -> None:
    """Replace a cache file in one go; a cache that cannot be written is no error."""
    content = {"version": _CACHE_VERSION, "root": str(root.resolve()), "games": rows}
    with suppress(OSError):
        store.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=store.parent, prefix=store.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(content, stream)
            os.replace(name, store)
        except OSError:
            with suppress(OSError):
                os.unlink(name)


def _nothing_found(root: Path, left_out: dict[str, int], broken: list[str]) -> str:
    reasons = [f"{count} {reason}" for reason, count in sorted(left_out.items())]
    if broken:
        reasons.append(f"{len(broken)} unreadable (first: {broken[0]})")
    why = "; ".join(reasons) or f"no <split>/<task>/<trial>/{GAME_FILE} in it"
    return (
        f"{root} holds no playable ALFWorld game: {why}. Fetch the games with "
        "`alfworld-download --data-dir FOLDER` (package alfworld) and give FOLDER as `data=`."
    )

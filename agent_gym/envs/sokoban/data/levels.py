"""Levels in files: a Boxoban folder or any part of it, and XSB collections, read only when asked for.

Ids are `<file>#<level>`: `unfiltered/valid/000#17`, `hard/000#17`, `microban#4`. A file inside a Boxoban
layout has the same id however much of the layout the caller names. Files are ordered by name, so positions
and ids do not depend on the file system.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import overload

from agent_gym.envs.sokoban.data.xsb import LevelText, NamedLevel, level_names, parse_levels, split_levels
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.support.errors import DataError, UnknownTaskError, suggest
from agent_gym.support.files import read_whole

__all__ = ["LevelFile", "LevelFiles", "NamedLevel", "parse_levels", "read_level_text"]

COLLECTIONS = ("unfiltered", "medium", "hard")
SPLITS = ("train", "valid", "test")
SUFFIXES = (".txt", ".xsb", ".sok")
_COMPRESSED = (".gz", ".xz")
_LAYOUT = (
    "expected Boxoban's layout (unfiltered|medium)/(train|valid|test)/000.txt and hard/000.txt, any part of "
    f"it, or level files ending in {', '.join(SUFFIXES)}, each optionally with .gz or .xz"
)
_KEEP_FILES = 8
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class LevelFile:
    """One file of levels.

    Attributes:
        name: What ids call it, without suffixes: `unfiltered/valid/000`.
        path: Where it is.
        collection: "unfiltered", "medium" or "hard" within Boxoban's layout, else "".
        split: "train", "valid" or "test" within Boxoban's layout, else "".
    """

    name: str
    path: Path
    collection: str = ""
    split: str = ""


class LevelFiles(Sequence[str]):
    """All levels of a file or of a folder and its subfolders.

    Construction lists files only; counting and reading levels happen when first needed, and the texts of
    the files used last are kept.

    Args:
        path: A level file or a folder.

    Raises:
        DataError: The path does not exist or holds no level file.
    """

    def __init__(self, path: str | Path) -> None:
        self.root = Path(path)
        self._set(_list_files(self.root))

    def _set(self, files: tuple[LevelFile, ...]) -> None:
        self.files = files
        self._by_name = {file.name: file for file in files}
        self._names: dict[str, list[str]] = {}
        self._parts: dict[str, dict[str, LevelText]] = {}
        self._ends: list[int] = []

    @property
    def splits(self) -> tuple[str, ...]:
        """Boxoban's splits among the files, in order; "" stands for files outside its layout and for hard."""
        present = {file.split for file in self.files}
        return tuple(split for split in (*SPLITS, "") if split in present)

    def select(self, *, collection: str | None = None, split: str | None = None) -> LevelFiles:
        """Return the part of one collection or split (each None for any).

        Raises:
            DataError: No file belongs to it; names those that are present.
        """
        chosen = tuple(
            file for file in self.files if collection in (None, file.collection) and split in (None, file.split)
        )
        if not chosen:
            present = sorted({f"{file.collection or '-'}/{file.split or '-'}" for file in self.files})
            raise DataError(
                f"{self.root} has no level file of collection {collection or 'any'!r} and split "
                f"{split or 'any'!r}; present are {', '.join(present)}"
            )
        part = LevelFiles.__new__(LevelFiles)
        part.root = self.root
        part._set(chosen)
        return part

    def __len__(self) -> int:
        """Number of levels; the first call counts them in every file."""
        return self._counted()[-1]

    def __iter__(self) -> Iterator[str]:
        """Yield every id in order."""
        for file in self.files:
            for name in self._level_names(file):
                yield f"{file.name}#{name}"

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self.id_at(place) for place in range(*index.indices(len(self))))
        return self.id_at(index)

    def id_at(self, index: int) -> str:
        """Return the id at a position.

        Raises:
            IndexError: The position is outside `0 <= index < len(self)`.
        """
        ends = self._counted()
        if not 0 <= index < ends[-1]:
            raise IndexError(f"level {index} of {ends[-1]} in {self.root}")
        position = bisect_right(ends, index)
        file = self.files[position]
        return f"{file.name}#{self._level_names(file)[index - (ends[position - 1] if position else 0)]}"

    def __contains__(self, level_id: object) -> bool:
        name, _, number = str(level_id).rpartition("#")
        return name in self._by_name and number in self._level_names(self._by_name[name])

    def read(self, level_id: str) -> Level:
        """Return one level by id.

        Raises:
            UnknownTaskError: No such file or level; names near ones.
            DataError: The level is malformed; names file, level, line, row and column.
        """
        return self.read_named(level_id).level

    def read_named(self, level_id: str) -> NamedLevel:
        """Return one level by id, with its title. Raises like `read`."""
        name, _, number = level_id.rpartition("#")
        file = self._by_name.get(name)
        if file is None:
            near = suggest(name, self._by_name)
            raise UnknownTaskError(
                f"no level {level_id!r} in {self.root}: expected <file>#<level> such as {next(iter(self))!r}.{near}"
            )
        part = self._file_parts(file).get(number)
        if part is None:
            names = self._level_names(file)
            raise UnknownTaskError(
                f"no level {level_id!r}: {file.path} holds {len(names)} levels, {name}#{names[0]} to "
                f"{name}#{names[-1]}"
            )
        return part.read(str(file.path))

    def _counted(self) -> list[int]:
        if not self._ends:
            self._ends = list(accumulate(len(self._level_names(file)) for file in self.files))
        return self._ends

    def _level_names(self, file: LevelFile) -> list[str]:
        names = self._names.get(file.name)
        if names is None:
            names = self._names[file.name] = level_names(read_level_text(file.path))
            if not names:
                parse_levels("", str(file.path))
        return names

    def _file_parts(self, file: LevelFile) -> dict[str, LevelText]:
        parts = self._parts.get(file.name)
        if parts is None:
            parts = {part.name: part for part in split_levels(read_level_text(file.path))}
            kept = list(self._parts.items())[1 - _KEEP_FILES :]
            # A new dict each time: other threads may be reading the old one.
            self._parts = {**dict(kept), file.name: parts}
        return parts


def read_level_text(path: Path) -> str:
    """Return a level file's text, decompressing `.gz` and `.xz`.

    Raises:
        DataError: The file cannot be read, or is far larger than any collection of levels.
    """
    return read_whole(path, _MOST_BYTES).decode("utf-8", errors="replace").removeprefix("\ufeff")


def _list_files(root: Path) -> tuple[LevelFile, ...]:
    if not root.exists():
        raise DataError(f"no level file or folder at {root}; {_LAYOUT}")
    if root.is_file():
        return (_level_file(root, root.parent),)
    files: dict[str, LevelFile] = {}
    # Sorting by path puts the plain file before a compressed copy of it; the first one of a name counts.
    for path in sorted(root.rglob("*"), key=lambda path: path.as_posix()):
        if _plain_name(path).lower().endswith(SUFFIXES) and path.is_file() and not _is_prose(path):
            file = _level_file(path, root)
            files.setdefault(file.name, file)
    if not files:
        raise DataError(f"no level file in {root}; {_LAYOUT}")
    return tuple(sorted(files.values(), key=lambda file: file.name))


def _plain_name(path: Path) -> str:
    return path.stem if path.suffix.lower() in _COMPRESSED else path.name


def _is_prose(path: Path) -> bool:
    return re.match(r"(readme|licen[cs]e|notice|copying)\b", path.name, re.IGNORECASE) is not None


def _level_file(path: Path, root: Path) -> LevelFile:
    stem = Path(_plain_name(path)).stem
    folders = path.resolve().parent.parts
    for depth, expected in ((2, SPLITS), (1, ())):
        place = folders[-depth:]
        if len(place) == depth and place[0] in COLLECTIONS and (not expected or place[-1] in expected):
            split = place[1] if expected else ""
            return LevelFile("/".join((*place, stem)), path, place[0], split)
    return LevelFile((path.parent.relative_to(root) / stem).as_posix(), path)

"""Passages by number and by id: in memory, or in files that processes share.

The file form is three files beside each other: the rows as JSON arrays `[id, title, text]`, one a line; the byte
offset of every row and of the end; and the sorted 64-bit digests of the ids, followed by their row numbers. All
are mapped into memory, so opening costs nothing and separate processes share one copy in the page cache.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from agent_gym.retrieval.base import Passage, UnknownPassageError
from agent_gym.support.errors import DataError

ROWS = "passages.jsonl"
OFFSETS = "passages.offsets"
IDS = "passages.ids"
WORD = np.dtype("<u8")


class PassageStore(Protocol):
    """Passages in corpus order."""

    def __len__(self) -> int: ...

    def __getitem__(self, doc: int) -> Passage: ...

    def find(self, id: str) -> int:
        """Return the number of a passage; raises UnknownPassageError."""


class MemoryPassages:
    """Passages held as a list.

    Args:
        passages: The corpus; ids must be unique.

    Raises:
        DataError: Two passages have one id.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = list(passages)
        self._docs = {passage.id: doc for doc, passage in enumerate(self._passages)}
        if len(self._docs) != len(self._passages):
            twice = next(p.id for doc, p in enumerate(self._passages) if self._docs[p.id] != doc)
            raise DataError(f"passage ids must be unique; {twice!r} occurs twice")

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, doc: int) -> Passage:
        return self._passages[doc]

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages)

    def find(self, id: str) -> int:
        """Return the number of a passage; raises UnknownPassageError."""
        try:
            return self._docs[id]
        except KeyError:
            raise _unknown(id, len(self)) from None


class FilePassages:
    """Passages in mapped files, written by `agent_gym.retrieval.building`.

    Args:
        folder: Folder of the three files.

    Raises:
        DataError: A file is missing or its size does not fit the others.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._rows = _map(folder / ROWS)
            self._offsets = _array(folder / OFFSETS)
            ids = _array(folder / IDS)
        except (OSError, ValueError) as error:
            raise DataError(f"no passages in {folder}: {error}. Build the index again.") from error
        size = len(ids) // 2
        if len(ids) % 2 or len(self._offsets) != size + 1 or int(self._offsets[-1]) != len(self._rows):
            raise DataError(
                f"the passage files in {folder} do not fit: {size} ids, {len(self._offsets)} offsets, "
                f"{len(self._rows)} bytes of rows. Build the index again."
            )
        self._digests, self._docs = ids[:size], ids[size:]

    def __len__(self) -> int:
        return len(self._docs)

    def __getitem__(self, doc: int) -> Passage:
        if not 0 <= doc < len(self):
            raise IndexError(f"passage {doc} of {len(self)}")
        start, end = int(self._offsets[doc]), int(self._offsets[doc + 1])
        return Passage(*json.loads(self._rows[start:end]))

    def __iter__(self) -> Iterator[Passage]:
        return (self[doc] for doc in range(len(self)))

    def find(self, id: str) -> int:
        """Return the number of a passage; raises UnknownPassageError."""
        wanted = digest(id)
        place = int(np.searchsorted(self._digests, np.uint64(wanted)))
        while place < len(self) and int(self._digests[place]) == wanted:
            doc = int(self._docs[place])
            if self[doc].id == id:
                return doc
            place += 1
        raise _unknown(id, len(self))


def digest(id: str) -> int:
    """Return the 64-bit digest by which ids are sorted."""
    return int.from_bytes(blake2b(id.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def encode_row(passage: Passage) -> bytes:
    """Return the stored line of a passage."""
    row = [passage.id, passage.title, passage.text]
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"


def write_ids(folder: Path, digests: npt.NDArray[np.uint64]) -> None:
    """Write the id file of a folder that has rows and offsets.

    Args:
        folder: Folder of the files.
        digests: Digest of the id of every row.

    Raises:
        DataError: Two passages have one id.
    """
    order = np.argsort(digests, kind="stable")
    ordered = digests[order]
    with (folder / IDS).open("wb") as stream:
        stream.write(ordered.astype(WORD).tobytes())
        stream.write(order.astype(WORD).tobytes())
    passages = FilePassages(folder)
    for place in np.flatnonzero(ordered[1:] == ordered[:-1]):
        first, second = int(order[place]), int(order[place + 1])
        if passages[first].id == passages[second].id:
            id = passages[first].id
            raise DataError(f"passage ids must be unique; {id!r} is the id of rows {first + 1} and {second + 1}")


def _unknown(id: str, size: int) -> UnknownPassageError:
    return UnknownPassageError(f"no passage {id!r} among the {size} of this corpus")


def _map(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as stream:
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _array(path: Path) -> npt.NDArray[np.uint64]:
    return np.frombuffer(_map(path), dtype=WORD)

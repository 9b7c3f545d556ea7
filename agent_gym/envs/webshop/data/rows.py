"""Rows of JSON in one file, compressed one by one and mapped into memory: any row in microseconds, no loading."""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_gym.support.errors import DataError

_LEVEL = 4


def mapped(path: Path) -> npt.NDArray[Any]:
    """Return an array file, mapped into memory; as a plain array, which is faster to index than NumPy's `memmap`.

    Raises:
        OSError: There is no such file.
        ValueError: It is no array file.
    """
    found: npt.NDArray[Any] = np.load(path, mmap_mode="r").view(np.ndarray)
    return found


class RowWriter:
    """Writes `<name>.rows` and `<name>.offsets.npy` into a folder.

    Args:
        folder: The folder.
        name: Name of the two files.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._offsets_path = folder / f"{name}.offsets.npy"
        self._stream = (folder / f"{name}.rows").open("wb")
        self._offsets = array("Q", [0])
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """Hash of the rows so far, before compression, which may differ between versions of zlib."""
        return self._hash.hexdigest()

    def add(self, row: Any) -> None:
        """Append a row."""
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        self._hash.update(text + b"\n")
        packed = zlib.compress(text, _LEVEL)
        self._stream.write(packed)
        self._offsets.append(self._offsets[-1] + len(packed))

    def close(self, *, complete: bool = True) -> None:
        """Close the files; without `complete` the offsets are not written."""
        self._stream.close()
        if complete:
            np.save(self._offsets_path, np.frombuffer(self._offsets, dtype=np.uint64))


class RowFile:
    """Reads what `RowWriter` wrote.

    Args:
        folder: The folder.
        name: Name of the two files.

    Raises:
        DataError: A file is missing or damaged.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}.rows"
        try:
            self._offsets = mapped(folder / f"{name}.offsets.npy")
            with path.open("rb") as stream:
                size = path.stat().st_size
                self._bytes: mmap.mmap | bytes = (
                    mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
                )
        except (OSError, ValueError) as error:
            raise DataError(f"the store at {folder} is damaged: {error}. Import the catalogue again.") from error
        size = int(self._offsets[-1]) if len(self._offsets) else -1
        if size != len(self._bytes):
            raise DataError(
                f"{path} has {len(self._bytes):,} bytes, expected {size:,}. Import the catalogue again."
            )
        self._path = path

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        start, end = int(self._offsets[number]), int(self._offsets[number + 1])
        try:
            return json.loads(zlib.decompress(self._bytes[start:end]).decode("utf-8", "surrogatepass"))
        except (zlib.error, ValueError) as error:
            raise DataError(
                f"row {number} of {self._path} is damaged: {error}. Import the catalogue again."
            ) from error

"""Files read and written whole.

A reader of what is written finds the old file or the new one, and who cannot write is told what to do; `settle` is
for what must also survive a power cut. What is read may be compressed, and is never larger than its reader expects.
"""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from agent_gym.support.errors import DataError

DAMAGES: Final = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading a file and decompressing it can raise."""
_BLOCK: Final = 1 << 20


def read_whole(path: Path, most: int) -> bytes:
    """Return a file's content, decompressed where its name ends in `.gz` or `.xz`.

    Args:
        path: The file.
        most: Most bytes of content; a small compressed file can hold any number.

    Raises:
        DataError: The file cannot be read, is damaged, or holds more.
    """
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix.lower(), open)
    blocks: list[bytes] = []
    size = 0
    try:
        with opener(path, "rb") as stream:
            while block := stream.read(_BLOCK):
                size += len(block)
                if size > most:
                    raise DataError(f"{path} holds more than the {most:,} bytes that are read; split it")
                blocks.append(block)
    except DAMAGES as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return b"".join(blocks)


def write_whole(path: str | Path, text: str) -> Path:
    """Write a text file at once, the folders above it made. Returns its path.

    Raises:
        DataError: The place cannot be written to; the message names the file and what stands in the way.
    """
    target = Path(path)
    partial = target.with_name(f".tmp-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise unwritable(target, error) from error
    return target


def settle(partial: str | Path, target: str | Path) -> None:
    """Give a file or folder that was written under another name its own one, such that it survives a power cut.

    Content reaches the disk before the name does: what has the name is whole.
    """
    flush(partial)
    os.replace(partial, target)
    _flush_one(Path(target).parent)


def flush(path: str | Path) -> None:
    """Make a file, or a folder with all that is in it, reach the disk."""
    for above, _, names in os.walk(path):
        for name in names:
            _flush_one(Path(above, name))
        _flush_one(above)  # the list of its names
    if not Path(path).is_dir():
        _flush_one(path)


def _flush_one(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> Path:
    """Make a folder, those above it too, to write into; one that is there stays. Returns it.

    Raises:
        UnwritableError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


class UnwritableError(DataError):
    """A place that cannot be written to."""


def unwritable(path: Path, error: OSError) -> UnwritableError:
    """Return the error for a file that cannot be written."""
    blocked = next((parent for parent in path.parents if parent.exists() and not parent.is_dir()), None)
    if blocked is not None:
        return UnwritableError(
            f"cannot write {path}: {blocked} is a file where a folder is needed; give another place"
        )
    if path.is_dir():
        return UnwritableError(f"cannot write {path}: it is a folder; give a file in it, such as {path / 'NAME'}")
    reason = error.strerror or str(error)
    return UnwritableError(f"cannot write {path}: {reason}; give a place that can be written to")

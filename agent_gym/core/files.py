"""Files written whole: a reader finds the old one or the new one, and who cannot write is told what to do."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from agent_gym.core.errors import DataError


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


def unwritable(path: Path, error: OSError) -> DataError:
    """Return the error for a file that cannot be written."""
    blocked = next((parent for parent in path.parents if parent.exists() and not parent.is_dir()), None)
    if blocked is not None:
        return DataError(f"cannot write {path}: {blocked} is a file where a folder is needed; give another place")
    if path.is_dir():
        return DataError(f"cannot write {path}: it is a folder; give a file in it, such as {path / 'NAME'}")
    reason = error.strerror or str(error)
    return DataError(f"cannot write {path}: {reason}; give a place that can be written to")

"""The logs of a run: one JSON object a line, each with the iteration that it belongs to."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_gym.support.errors import AgentGymWarning

_SHOWN = 5


class DamagedLogWarning(AgentGymWarning):
    """Lines of a log cannot be read; the others are."""


class JsonLog:
    """Appends rows to a file; what it begins with replaces what was there, at once.

    A file with lines that cannot be read is kept beside the new one, as `NAME.damaged`.

    Args:
        path: The file.
        rows: Rows to begin with; None keeps those that are there.
        before: Of the rows that are there, keep those of iterations before this one: a resumed run writes the
            others again.
    """

    def __init__(
        self, path: Path, rows: Iterable[Mapping[str, Any]] | None = None, *, before: int | None = None
    ) -> None:
        self._path = path
        found, damaged = _read(path)
        if damaged:
            _warn(path, damaged)
            shutil.copyfile(path, path.with_name(f"{path.name}.damaged"))
        kept = found if rows is None else rows
        lines = [_line(row) for row in kept if before is None or row["iteration"] < before]
        partial = path.with_name(f".tmp-{path.name}")
        partial.write_text("".join(lines), encoding="utf-8")
        os.replace(partial, path)

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Write rows, and hand them to the operating system."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.writelines(map(_line, rows))


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a log; empty when there is none.

    A last line cut off by a kill is left out. Other lines that cannot be read are named in a `DamagedLogWarning`.
    """
    rows, damaged = _read(path)
    if damaged:
        _warn(path, damaged)
    return rows


def _read(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of a log and the numbers of its damaged lines, from 1."""
    if not path.is_file():
        return [], []
    rows: list[dict[str, Any]] = []
    damaged = []
    *lines, last = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate((*lines, last), 1):
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif number <= len(lines):  # the last one was cut off by a kill, or is empty
            damaged.append(number)
    return rows, damaged


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _warn(path: Path, damaged: Sequence[int]) -> None:
    shown = ", ".join(map(str, damaged[:_SHOWN])) + (", ..." if len(damaged) > _SHOWN else "")
    warnings.warn(
        f"{path}: {len(damaged)} {'line' if len(damaged) == 1 else 'lines'} cannot be read and are left out "
        f"(line {shown}); the others are kept",
        DamagedLogWarning,
        stacklevel=3,
    )


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"  # in ASCII: some readers take other line separators for the end of a line

"""The logs of a run: one JSON object a line, each with the iteration that it belongs to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class JsonLog:
    """Appends rows to a file; what it begins with replaces what was there, at once.

    Args:
        path: The file.
        rows: Rows to begin with; None keeps those that are there, without a last line that a kill cut off.
        before: Of the rows that are there, keep those of iterations before this one: a resumed run writes the
            others again.
    """

    def __init__(
        self, path: Path, rows: Iterable[Mapping[str, Any]] | None = None, *, before: int | None = None
    ) -> None:
        self._path = path
        kept = read_log(path) if rows is None else rows
        lines = [_line(row) for row in kept if before is None or row["iteration"] < before]
        partial = path.with_name(f".tmp-{path.name}")
        partial.write_text("".join(lines), encoding="utf-8")
        os.replace(partial, path)

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Write rows, and hand them to the operating system."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.writelines(map(_line, rows))


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a log; empty when there is none. A last line cut off by a kill is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"  # in ASCII: some readers take other line separators for the end of a line

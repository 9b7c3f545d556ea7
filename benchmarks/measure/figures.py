"""What a measurement leaves behind: a JSON file, and a table on the terminal."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from agent_gym._version import __version__
from agent_gym.support.files import write_whole


def versions() -> dict[str, str]:
    """Return what figures name first: the version of this package and that of Python."""
    return {"package_version": __version__, "python": platform.python_version()}


def write_figures(output: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures as JSON; None writes nothing.

    Raises:
        DataError: The place cannot be written to.
    """
    if output is not None:
        write_whole(output, json.dumps(figures, indent=1) + "\n")


def figure_table(title: str, heads: Sequence[str] = ("what", "figure")) -> Table:
    """Return an empty table with a title on the left."""
    return Table(*heads, title=title, title_justify="left", box=None)


def number(value: float | None) -> str:
    """Return a figure with three significant digits, "-" for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

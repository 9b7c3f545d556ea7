"""A board as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_gym.page import page_environment, page_file
from benchmarks.evaluation.leaderboard.board import Board, Section
from benchmarks.evaluation.leaderboard.show import attempts, interval, invalid, played, section_facts, section_title

_FOLDER = Path(__file__).parent
_LEAST_SPAN = 0.05  # differences are drawn on a scale of at least this size


def render_board(board: Board, title: str = "Leaderboard") -> str:
    """Return the page."""
    filters: dict[str, Callable[..., str]] = {
        "attempts": attempts,
        "interval": interval,
        "invalid": invalid,
        "played": played,
    }
    environment = page_environment(_FOLDER, filters)
    return environment.get_template("page.html.j2").render(
        title=title,
        sections=[_values(number, section) for number, section in enumerate(board.sections)],
        agents=board.agents,
        style=page_file(_FOLDER / "style.css"),
    )


def _values(number: int, section: Section) -> dict[str, Any]:
    """Return what the template draws of a table."""
    ends = [
        abs(end)
        for row in section.rows
        if row.comparison is not None
        for end in (row.comparison.success.low, row.comparison.success.high)
    ]
    return {
        "key": f"s{number}",
        "title": section_title(section),
        "facts": section_facts(section),
        "contest": section.contest,
        "rows": section.rows,
        "by_name": {row.name: row.entry.figures for row in section.rows},
        "reference": section.reference if len(section.rows) > 1 else "",
        "has_scores": section.has_scores,
        "counts_tokens": section.counts_tokens,
        "types": _types(section) if len(section.types) > 1 else [],
        "attempts": section.attempts,
        "span": max([_LEAST_SPAN, *ends]),
    }


def _types(section: Section) -> list[tuple[str, int]]:
    """Return the task types with their numbers of tasks."""
    return [
        (kind, max(row.entry.figures.by_type[kind].n for row in section.rows if kind in row.entry.figures.by_type))
        for kind in section.types
    ]

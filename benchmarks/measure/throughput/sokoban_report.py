"""Runs both sides of Sokoban and shows the figures beside gym-sokoban's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.table import Table

from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, number, versions
from benchmarks.measure.throughput.upstream.interpreters import run_original

LEAST_ROOMS = 5
"""The original takes some 20 s for a room of 10x10 cells."""
_MISSING = (
    "gym-sokoban is not installed for {python}. To measure it: python -m venv upstream && "
    'upstream/bin/pip install gym-sokoban==0.0.6 "setuptools<81", then --upstream upstream/bin/python'
)


def measure_sokoban(
    upstream: Path | None, seconds: float, repeats: int, least_rooms: int = LEAST_ROOMS
) -> dict[str, Any]:
    """Return the figures of Sokoban, ours and gym-sokoban's; each side generates `least_rooms` rooms at least."""
    from benchmarks.measure.throughput.sokoban import make_job

    job = make_job(seconds, repeats, least_rooms)
    ours = run_module("benchmarks.measure.throughput.sokoban", job)
    theirs, missing = run_original("sokoban_script", upstream, job, _MISSING)
    rooms = {}
    for name, mine in ours["rooms"].items():
        rooms[name] = _compare(mine, None if missing else theirs["rooms"][name])
    return {
        "suite": "sokoban",
        **versions(),
        "upstream_missing": missing,
        "upstream_python": theirs.get("python"),
        "upstream_numpy": theirs.get("numpy"),
        "cpu_seconds_per_measurement": seconds,
        "repeats": repeats,
        "rooms": rooms,
    }


def _compare(mine: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "board_steps_per_s": median(mine["steps_per_s"]),
        "text_steps_per_s": median(mine["text_steps_per_s"]),
        "rooms_per_s": 1 / fmean(mine["room_seconds"]),
        "rooms_per_s_median": 1 / median(mine["room_seconds"]),
        "text_resets_per_s": 1 / fmean(mine["reset_seconds"]),
        "board_kib": mine["peak_kib_per_env"],
        "text_kib": mine["text_peak_kib_per_env"],
        "ours": dict(mine),
        "upstream": None,
    }
    if other is None:
        return row
    row |= {
        "upstream": dict(other),
        "upstream_steps_per_s": median(other["steps_per_s"]),
        "upstream_rooms_per_s": 1 / fmean(other["room_seconds"]),
        "upstream_rooms_per_s_median": 1 / median(other["room_seconds"]),
        "upstream_kib": other["peak_kib_per_env"],
        "returns_agree": abs(mine["return"] - other["return"]) < 1e-6,
    }
    return row


def sokoban_table(figures: Mapping[str, Any]) -> Table:
    """Return the comparison as a table; the ratio is ours to the original's."""
    title = "Sokoban per CPU second, rendering off on both sides"
    table = figure_table(title, ("room", "what", "ours", "gym-sokoban 0.0.6", "ratio"))
    for name, row in figures["rooms"].items():
        shown = (
            ("steps, board", row["board_steps_per_s"], row.get("upstream_steps_per_s")),
            ("steps, text environment", row["text_steps_per_s"], row.get("upstream_steps_per_s")),
            ("rooms generated", row["rooms_per_s"], row.get("upstream_rooms_per_s")),
            ("rooms generated, median room", row["rooms_per_s_median"], row.get("upstream_rooms_per_s_median")),
            ("resets, text environment", row["text_resets_per_s"], row.get("upstream_rooms_per_s")),
        )
        for what, mine, other in shown:
            table.add_row(name, what, number(mine), number(other), f"{mine / other:.1f}x" if other else "")
        memory = row.get("upstream_kib")
        table.add_row(name, "KiB per board", number(row["board_kib"]), number(memory), "")
        table.add_row(name, "KiB per text environment", number(row["text_kib"]), number(memory), "")
    return table

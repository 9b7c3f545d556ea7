"""Runs both sides of ALFWorld and shows the figures beside the stock engine's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.table import Table

from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, number, versions
from benchmarks.measure.throughput.upstream.interpreters import run_original

_MISSING = (
    "alfworld and textworld are not installed for {python}. To measure them (a C++ compiler is needed): "
    "python -m venv upstream && upstream/bin/pip install cmake alfworld==0.4.2 textworld==1.7.0, then "
    "--upstream upstream/bin/python"
)


def measure_alfworld(
    upstream: Path | None, seconds: float, repeats: int, data: Path | None = None, games: int = 6
) -> dict[str, Any]:
    """Return the figures of ALFWorld, ours and the stock engine's."""
    from benchmarks.measure.throughput.alfworld import make_job

    job = make_job(seconds, repeats, data, games)
    ours = run_module("benchmarks.measure.throughput.alfworld", job)
    theirs, missing = run_original("alfworld_script", upstream, job, _MISSING)
    return {
        "suite": "alfworld",
        **versions(),
        "upstream_missing": missing,
        "upstream_python": theirs.get("python"),
        "source": "generated" if data is None else "real",
        "games": [row["task_id"] for row in job["games"]],
        "crowd": job["crowd"],
        "index_games": job["index_games"],
        "cpu_seconds_per_measurement": seconds,
        "repeats": repeats,
        **_compare(ours, None if missing else theirs),
    }


def _compare(mine: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the figures of both sides: rates per CPU second, memory in KiB.

    Args:
        mine: Report of `benchmarks.measure.throughput.alfworld.measure`.
        other: Report of the stock engine, None when it was not measured.
    """
    figures: dict[str, Any] = {
        "engine_steps_per_s": median(mine["steps_per_s"]),
        "text_steps_per_s": median(mine["text_steps_per_s"]),
        "engine_starts_per_s": 1 / fmean(mine["start_seconds"]),
        "text_starts_per_s": 1 / fmean(mine["text_start_seconds"]),
        "compiles_per_s": 1 / fmean(mine["compile_seconds"]),
        "engine_kib": mine["kib_per_env"],
        "text_kib": mine["text_kib_per_env"],
        "game_kib": mine["kib_per_game"],
        "crowd_wall_seconds": mine["crowd_seconds"],
        "index_wall_seconds": mine["index_seconds"],
        "ours": dict(mine),
        "upstream": None,
    }
    if other is not None:
        figures |= {
            "upstream": dict(other),
            "upstream_steps_per_s": 1 / fmean(other["step_seconds"]),
            "upstream_starts_per_s": 1 / fmean(other["start_seconds"]),
            "upstream_kib": other["kib_per_env"],
            "texts_agree": mine["digest"] == other["digest"],
        }
    return figures


def alfworld_table(figures: Mapping[str, Any]) -> Table:
    """Return the comparison as a table; the ratio is ours to the stock engine's."""
    title = f"ALFWorld per CPU second, admissible commands listed, {figures['source']} games"
    table = figure_table(title, ("what", "ours", "alfworld 0.4.2", "ratio"))
    steps, starts = figures.get("upstream_steps_per_s"), figures.get("upstream_starts_per_s")
    for what, mine, other in (
        ("steps, engine", figures["engine_steps_per_s"], steps),
        ("steps, text environment", figures["text_steps_per_s"], steps),
        ("episode starts, engine", figures["engine_starts_per_s"], starts),
        ("episode starts, text environment", figures["text_starts_per_s"], starts),
        ("games compiled", figures["compiles_per_s"], None),
    ):
        table.add_row(what, number(mine), number(other), f"{mine / other:,.0f}x" if other else "")
    memory = number(figures.get("upstream_kib"))
    table.add_row("KiB per running game", number(figures["engine_kib"]), memory)
    table.add_row("KiB per text environment", number(figures["text_kib"]), memory)
    table.add_row("KiB per compiled game, shared", number(figures["game_kib"]))
    table.add_row(f"{figures['crowd']} environments x 50 turns, wall s", number(figures["crowd_wall_seconds"]))
    index = figures["index_wall_seconds"]
    if index is not None:
        table.add_row(f"index of {figures['index_games']:,} games, cold, wall s", number(index["cold"]))
        table.add_row("the same, warm, wall s", number(index["warm"]))
    return table

"""Shows the figures of ALFWorld beside the stock engine's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from rich.table import Table

ALFWORLD_MISSING = (
    "alfworld and textworld are not installed for {python}. To measure them (a C++ compiler is needed): "
    "python -m venv upstream && upstream/bin/pip install cmake alfworld==0.4.2 textworld==1.7.0, then "
    "--upstream upstream/bin/python"
)


def compare_alfworld(mine: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
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
    table = Table("what", "ours", "alfworld 0.4.2", "ratio", title=title, title_justify="left", box=None)
    steps, starts = figures.get("upstream_steps_per_s"), figures.get("upstream_starts_per_s")
    for what, mine, other in (
        ("steps, engine", figures["engine_steps_per_s"], steps),
        ("steps, text environment", figures["text_steps_per_s"], steps),
        ("episode starts, engine", figures["engine_starts_per_s"], starts),
        ("episode starts, text environment", figures["text_starts_per_s"], starts),
        ("games compiled", figures["compiles_per_s"], None),
    ):
        table.add_row(what, _number(mine), _number(other), f"{mine / other:,.0f}x" if other else "")
    memory = _number(figures.get("upstream_kib"))
    table.add_row("KiB per running game", _number(figures["engine_kib"]), memory)
    table.add_row("KiB per text environment", _number(figures["text_kib"]), memory)
    table.add_row("KiB per compiled game, shared", _number(figures["game_kib"]))
    table.add_row(f"{figures['crowd']} environments x 50 turns, wall s", _number(figures["crowd_wall_seconds"]))
    index = figures["index_wall_seconds"]
    if index is not None:
        table.add_row(f"index of {figures['index_games']:,} games, cold, wall s", _number(index["cold"]))
        table.add_row("the same, warm, wall s", _number(index["warm"]))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

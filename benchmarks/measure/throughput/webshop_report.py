"""Measures WebShop in a process of its own and shows the figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, versions

UPSTREAM_STEPS_PER_S = 65
"""Steps per CPU second of the original on a 1,000-product catalogue, search stubbed; measured once."""


def measure_webshop(seconds: float, repeats: int, data: Path | None) -> dict[str, Any]:
    """Return the figures of WebShop."""
    from benchmarks.measure.throughput.webshop import make_job

    return {
        "suite": "webshop",
        **versions(),
        "upstream_missing": "",
        "cpu_seconds_per_measurement": seconds,
        "repeats": repeats,
        **run_module("benchmarks.measure.throughput.webshop", make_job(seconds, repeats, data)),
    }


def webshop_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures as a table."""
    title = f"WebShop, {figures['products']:,} products, text observations with admissible actions"
    table = figure_table(title, ("what", "value", "unit"))
    for name, rate in figures["steps_per_s"].items():
        table.add_row(f"steps: {name}", f"{rate:,.0f}", "per CPU second")
    table.add_row("searches, new queries", f"{figures['new_searches_per_s']:,.0f}", "per CPU second")
    table.add_row("resets", f"{figures['resets_per_s']:,.0f}", "per CPU second")
    table.add_row("construction", f"{figures['construction_ms']:.2f}", "CPU milliseconds")
    for row in figures["memory"]:
        own = "" if row["private_mib"] is None else f", {row['private_mib']:,.0f} of it private"
        what = f"resident with {row['envs']:,} environments in play"
        table.add_row(what, f"{row['after_mib']:,.0f}", f"MiB ({row['before_mib']:,.0f} before{own})")
    table.add_row("the original's steps, measured once", f"{UPSTREAM_STEPS_PER_S}", "per CPU second")
    return table

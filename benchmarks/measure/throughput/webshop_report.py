"""Shows the figures of WebShop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

UPSTREAM_STEPS_PER_S = 65
"""Steps per CPU second of the original on a 1,000-product catalogue, search stubbed; measured once."""


def webshop_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures as a table."""
    title = f"WebShop, {figures['products']:,} products, text observations with admissible actions"
    table = Table("what", "value", "unit", title=title, title_justify="left", box=None)
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

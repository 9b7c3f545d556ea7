"""Runs the search measurements and shows them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_gym.terminal.progress import working
from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, versions, write_figures

_LUCENE = "benchmarks.measure.search.lucene"


def run_search(count: int, queries: int, index: Path | None, output: Path | None) -> None:
    """Measure building and searching, print the table and write the figures.

    Args:
        count: Products of the catalogue.
        queries: Queries measured.
        index: Folder that keeps the index; one that exists is searched without building. None builds into a
            temporary folder.
        output: JSON file to write, or None.

    Raises:
        AgentGymError: A measurement failed.
    """
    with working(f"Measuring {count:,} products"), tempfile.TemporaryDirectory() as scratch:
        figures = measure_search(count, queries, Path(scratch) / "index" if index is None else index)
    Console().print(search_table(figures))
    write_figures(output, figures)


def measure_search(count: int, queries: int, folder: Path) -> dict[str, Any]:
    """Return the figures of one catalogue; the index in `folder` is built when it is not there."""
    figures: dict[str, Any] = {
        **versions(),
        "products": count,
        "queries": queries,
    }
    if not folder.exists():
        figures |= run_module(_LUCENE, {"stage": "build", "count": count, "folder": str(folder)})
    warm = max(5, queries // 10)
    job = {"stage": "queries", "folder": str(folder), "queries": queries, "warm": warm}
    return figures | run_module(_LUCENE, job)


def search_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures as a table."""
    title = f"Lucene ranking of {figures['products']:,} products, one thread, best 50 per query"
    table = figure_table(title)
    if "build_cpu_s" in figures:
        table.add_row("build, CPU s", f"{figures['build_cpu_s']:,.1f}")
        table.add_row("build, peak memory MB", f"{figures['build_peak_bytes'] / 1e6:,.0f}")
        table.add_row("index MB", f"{figures['index_bytes'] / 1e6:,.0f}")
    table.add_row("open, ms", f"{figures['open_s'] * 1000:.1f}")
    table.add_row("query, CPU ms: median", f"{figures['p50_ms']:.2f}")
    table.add_row("query, CPU ms: 95th percentile", f"{figures['p95_ms']:.2f}")
    table.add_row("query, CPU ms: mean", f"{figures['mean_ms']:.2f}")
    table.add_row("postings per query and product", f"{figures['postings_per_document']:.2f}")
    table.add_row("worker memory MB: its own", f"{figures['own_bytes'] / 1e6:,.0f}")
    table.add_row("worker memory MB: with the mapped index", f"{figures['rss_bytes'] / 1e6:,.0f}")
    return table

"""Runs shoppers against the site and shows latency, errors and the server's memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from agent_gym.support.errors import AgentGymError
from agent_gym.terminal.progress import working
from benchmarks.measure.figures import figure_table, versions, write_figures
from benchmarks.measure.server import start_server, stop_server
from benchmarks.measure.site.shoppers import shop

_LOOK_SECONDS = 1.0


def run_site(catalog: str, shoppers: int, seconds: float, think: float, output: Path | None) -> None:
    """Measure, print the table and write the figures.

    Args:
        catalog: What the site sells.
        shoppers: Visitors at once.
        seconds: How long they shop.
        think: Mean pause between two pages, in seconds.
        output: JSON file to write, or None.

    Raises:
        AgentGymError: The site did not start, or an answer was an error.
    """
    with working(f"{shoppers} shoppers for {seconds:.0f} s"):
        figures = measure_site(catalog, shoppers, seconds, think)
    Console().print(site_table(figures))
    write_figures(output, figures)
    if figures["errors"]:
        raise AgentGymError(f"the site failed under load: {figures['errors']}")


def measure_site(catalog: str, shoppers: int, seconds: float, think: float) -> dict[str, Any]:
    """Serve a catalogue from a process of its own and let shoppers visit it."""
    import psutil

    arguments = ("webshop", "--port", "0", "--catalog", catalog)
    site, said = start_server(*arguments, ready="http://", one_thread=True)
    try:
        process = psutil.Process(site.pid)
        memory = _Memory(process)
        before = process.cpu_times()
        tally = shop(said.split()[-1].rstrip("/"), shoppers, seconds, think)
        after = process.cpu_times()
        memory.stop()
    finally:
        stop_server(site)
    taken = np.array(tally.seconds or [0.0]) * 1000
    spent = after.user + after.system - before.user - before.system
    return {
        **versions(),
        "catalog": catalog,
        "shoppers": shoppers,
        "seconds": seconds,
        "think_seconds": think,
        "requests": len(tally.seconds),
        "requests_per_s": len(tally.seconds) / seconds,
        "visits": tally.visits,
        "pages": dict(tally.kinds),
        "errors": dict(tally.errors),
        "p50_ms": float(np.percentile(taken, 50)),
        "p95_ms": float(np.percentile(taken, 95)),
        "p99_ms": float(np.percentile(taken, 99)),
        "cpu_ms_per_request": 1000 * spent / max(len(tally.seconds), 1),
        "rss_bytes": memory.samples,
    }


class _Memory:
    """Notes a process's resident memory every second."""

    def __init__(self, process: Any) -> None:
        self.samples: list[int] = []
        self._process = process
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            self.samples.append(self._process.memory_info().rss)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        self.samples.append(self._process.memory_info().rss)


def site_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures as a table."""
    title = f"{figures['shoppers']} shoppers for {figures['seconds']:.0f} s, {figures['think_seconds']:g} s a page"
    table = figure_table(title)
    table.add_row("requests", f"{figures['requests']:,} ({figures['requests_per_s']:.0f} a second)")
    table.add_row("visits up to the purchase", f"{figures['visits']:,}")
    table.add_row("errors", str(figures["errors"] or 0))
    for name in ("p50", "p95", "p99"):
        table.add_row(f"latency ms: {name}", f"{figures[f'{name}_ms']:.0f}")
    table.add_row("server CPU ms per request", f"{figures['cpu_ms_per_request']:.2f}")
    samples = [sample / 1e6 for sample in figures["rss_bytes"]]
    shown = [samples[len(samples) * part // 4] for part in range(4)] + [samples[-1]]
    table.add_row("server memory MB, over the time", " ".join(f"{sample:.0f}" for sample in shown))
    return table

"""Every environment in one run, beside its original where that is installed: figures, table, plot."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_gym.terminal.progress import working
from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, number, versions, write_figures
from benchmarks.measure.plotting import load_pyplot
from benchmarks.measure.throughput.alfworld_report import measure_alfworld
from benchmarks.measure.throughput.overview import CROWDS, kib_per_env
from benchmarks.measure.throughput.overview_plot import draw
from benchmarks.measure.throughput.sokoban_report import measure_sokoban
from benchmarks.measure.throughput.upstream.interpreters import Upstreams
from benchmarks.measure.throughput.webshop_report import UPSTREAM_STEPS_PER_S


@dataclass(frozen=True, slots=True)
class Subject:
    """One line of the overview.

    Attributes:
        title: How it is called.
        env_id: Environment.
        options: Its arguments.
        original: Suite whose original it is set beside, "" for none.
        remark: What stands in place of an original's figures.
    """

    title: str
    env_id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    original: str = ""
    remark: str = ""


SUBJECTS = (
    Subject("Sokoban 6x6, 1 box", "Sokoban-v0", original="sokoban:6x6-1"),
    Subject("Sokoban 10x10, 4 boxes", "Sokoban-10x10-4-v0", original="sokoban:10x10-4"),
    Subject("ALFWorld", "ALFWorld-v0", original="alfworld"),
    Subject(
        "WebShop, 1,000 products",
        "WebShop-v0",
        remark=f"not installed (needs Java); measured apart, its search left out: {UPSTREAM_STEPS_PER_S} steps/s",
    ),
    Subject(
        "SearchQA, 10,000 passages", "SearchQA-v0", {"split": "test", "entities": 10_000, "worlds": 1}, "server"
    ),
)
"""WebShopBrowser is left out: its speed is Chromium's."""


def run_overview(
    upstreams: Upstreams, seconds: float, repeats: int, output: Path | None, plot: Path | None
) -> None:
    """Measure everything, print the table, write figures and plot.

    Args:
        upstreams: Interpreters that have the originals.
        seconds: Seconds of one measurement.
        repeats: Measurements of which the median counts.
        output: JSON file to write, or None.
        plot: Image to write, or None.

    Raises:
        ConfigError: There is a plot to draw and matplotlib is not installed.
        AgentGymError: A measurement failed.
    """
    if plot is not None:
        load_pyplot()  # before the long measurement, where it is not installed
    with working("Measuring every environment") as say:
        figures = measure_all(upstreams, seconds, repeats, on_part=lambda name: say(f"Measuring {name}"))
    console = Console()
    for table in overview_tables(figures):
        console.print(table)
    for text in figures["upstream_missing"]:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    write_figures(output, figures)
    if plot is not None:
        plot.parent.mkdir(parents=True, exist_ok=True)
        draw(figures, plot)


def measure_all(
    upstreams: Upstreams,
    seconds: float,
    repeats: int,
    *,
    subjects: Sequence[Subject] = SUBJECTS,
    crowds: Sequence[int] = CROWDS,
    on_part: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """Return the figures of all subjects.

    Args:
        upstreams: Interpreters that have the originals.
        seconds: Seconds of one measurement.
        repeats: Measurements of which the median counts.
        subjects: What to measure.
        crowds: Numbers of environments in one process.
        on_part: Called with the name of each part before it is measured.
    """
    rows, missing, suites = [], [], {}
    wanted = {subject.original.partition(":")[0] for subject in subjects}
    few_rooms = partial(measure_sokoban, least_rooms=3)
    for name, measure_suite in (("sokoban", few_rooms), ("alfworld", measure_alfworld)):
        if name in wanted:
            on_part(f"the original of {name}")
            suites[name] = measure_suite(upstreams.of(name), seconds, repeats)
            missing += [suites[name]["upstream_missing"]] if suites[name]["upstream_missing"] else []
    job = {"seconds": seconds, "repeats": repeats, "crowds": list(crowds)}
    for subject in subjects:
        on_part(subject.title)
        found = _measured({**job, "env_id": subject.env_id, "options": dict(subject.options)})
        row = {"title": subject.title, **found, "kib_per_env": kib_per_env(found), "remark": subject.remark}
        suite, _, room = subject.original.partition(":")
        row["original"] = None
        if suite == "server":
            row |= _beside_server(subject, job)
        elif suite:
            row["original"] = _original(suite, suites[suite], room)
        rows.append(row)
    return {
        "suite": "all",
        **versions(),
        "machine": {"processor": _processor(), "cores": os.cpu_count()},
        "seconds_per_measurement": seconds,
        "repeats": repeats,
        "upstream_missing": missing,
        "rows": rows,
        "suites": suites,
    }


def _measured(job: Mapping[str, Any]) -> dict[str, Any]:
    return run_module("benchmarks.measure.throughput.overview", job)


def _beside_server(subject: Subject, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same environment with its searches in process and at a server, by the clock on the wall."""
    from benchmarks.measure.throughput.searchqa_server import serving

    job = {**job, "env_id": subject.env_id, "crowds": [], "wall": True}
    inside = _measured({**job, "options": dict(subject.options)})
    with serving(subject.options) as address:
        outside = _measured({**job, "options": {**subject.options, "retriever": address}})
    return {
        "wall_steps_per_s": inside["steps_per_s"],
        "original": {
            "name": "the same, searching a Search-R1 style server (wall clock)",
            "steps_per_s": outside["steps_per_s"],
            "resets_per_s": outside["restarts_per_s"],
            "kib_per_env": None,
        },
    }


def _original(name: str, suite: Mapping[str, Any], room: str) -> dict[str, Any] | None:
    """Return an original's figures in the terms of the overview."""
    if suite["upstream_missing"]:
        return None
    if name == "sokoban":
        row = suite["rooms"][room]
        return {
            "name": "gym-sokoban 0.0.6, without rendering",
            "steps_per_s": row["upstream_steps_per_s"],
            "resets_per_s": row["upstream_rooms_per_s"],
            "kib_per_env": row["upstream_kib"],
            "our_engine_steps_per_s": row["board_steps_per_s"],
        }
    return {
        "name": "alfworld 0.4.2 on textworld 1.7.0",
        "steps_per_s": suite["upstream_steps_per_s"],
        "resets_per_s": suite["upstream_starts_per_s"],
        "kib_per_env": suite["upstream_kib"],
        "our_engine_steps_per_s": suite["engine_steps_per_s"],
    }


def overview_tables(figures: Mapping[str, Any]) -> list[Table]:
    """Return the figures as tables: each environment by itself, and beside its original."""
    title = "Text environments, per CPU second of one core"
    columns = (
        "environment",
        "steps/s",
        "new tasks/s",
        "restarts/s",
        "import ms",
        "first ms",
        "make ms",
        "KiB each",
    )
    alone = figure_table(title, columns)
    crowds = [f"{crowd['envs']:,}" for crowd in figures["rows"][0]["crowds"]]
    many = figure_table("", ("environments in one process, steps/s", *crowds))
    beside = figure_table("", ("environment", "original", "ours", "original's", "ratio"))
    for row in figures["rows"]:
        names = ("steps_per_s", "resets_per_s", "restarts_per_s", "import_ms", "first_ms", "construction_ms")
        alone.add_row(row["title"], *(number(row[name]) for name in (*names, "kib_per_env")))
        many.add_row(row["title"], *(number(crowd["steps_per_s"]) for crowd in row["crowds"]))
        beside.add_row(row["title"], *_beside(row))
    return [alone, many, beside]


def _beside(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    original = row["original"]
    if original is None:
        return row["remark"] or "not installed", number(row["steps_per_s"]), "-", ""
    mine = row.get("wall_steps_per_s", row["steps_per_s"])
    theirs = original["steps_per_s"]
    return original["name"], number(mine), number(theirs), f"{mine / theirs:,.1f}x"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

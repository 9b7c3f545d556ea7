"""Runs a throughput suite and shows ours beside the original's."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_gym._version import __version__
from agent_gym.support.errors import AgentGymError, ConfigError, suggest
from agent_gym.terminal.progress import working
from benchmarks.measure.throughput.alfworld_report import ALFWORLD_MISSING, alfworld_table, compare_alfworld
from benchmarks.measure.throughput.overview_report import ALL, run_overview
from benchmarks.measure.throughput.upstream import Upstreams, run_child
from benchmarks.measure.throughput.webshop_report import webshop_table

SUITES = (ALL, "sokoban", "alfworld", "webshop", "searchqa")
LEAST_ROOMS = 5
"""The original takes some 20 s for a room of 10x10 cells."""
_HERE = Path(__file__).parent
_MISSING = (
    "gym-sokoban is not installed for {python}. To measure it: python -m venv upstream && "
    'upstream/bin/pip install gym-sokoban==0.0.6 "setuptools<81", then --upstream upstream/bin/python'
)


def run_suite(
    name: str,
    upstreams: Upstreams,
    seconds: float,
    repeats: int,
    output: Path | None,
    data: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Measure both sides, print the table and write the figures.

    Args:
        name: Name of a suite; `all` measures every environment in the same terms.
        upstreams: Interpreters that have the original packages.
        seconds: CPU seconds per measurement.
        repeats: Measurements of which the median counts.
        output: JSON file to write, or None.
        data: Folder of real games (ALFWorld), a catalogue store (WebShop), or questions and passages
            (SearchQA); None plays generated ones.
        plot: Image to write, of the suite `all`; or None.

    Raises:
        ConfigError: There is no such suite, or it reads no data or draws no plot.
        AgentGymError: A measurement failed.
    """
    if name not in SUITES:
        raise ConfigError(f"no throughput suite {name!r}.{suggest(name, SUITES)} Suites: {', '.join(SUITES)}")
    if data is not None and name in (ALL, "sokoban"):
        raise ConfigError(f"--data names games or a catalogue; the suite {name!r} reads none")
    if plot is not None and name != ALL:
        raise ConfigError(f"--plot is of the suite {ALL!r}; the suite {name!r} draws none")
    if name == ALL:
        run_overview(upstreams, seconds, repeats, output, plot)
        return
    upstream = upstreams.of(name)
    if name == "searchqa":
        from benchmarks.measure.throughput.searchqa import run_searchqa

        run_searchqa(seconds, repeats, data, output)
        return
    console = Console()
    with working("Measuring"):
        if name == "alfworld":
            figures = measure_alfworld(upstream, seconds, repeats, data)
            table, agree = alfworld_table(figures), figures.get("texts_agree", True)
        elif name == "webshop":
            figures, agree = measure_webshop(seconds, repeats, data), True
            table = webshop_table(figures)
        else:
            figures = measure_sokoban(upstream, seconds, repeats)
            table = sokoban_table(figures)
            agree = all(row.get("returns_agree", True) for row in figures["rooms"].values())
    console.print(table)
    if figures["upstream_missing"]:
        console.print(figures["upstream_missing"], highlight=False, markup=False, soft_wrap=True)
    elif not agree:
        raise AgentGymError("the two sides played the same games and actions to different ends")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def measure_sokoban(
    upstream: Path | None, seconds: float, repeats: int, least_rooms: int = LEAST_ROOMS
) -> dict[str, Any]:
    """Return the figures of Sokoban, ours and gym-sokoban's; each side generates `least_rooms` rooms at least."""
    from benchmarks.measure.throughput.sokoban import make_job

    job = make_job(seconds, repeats, least_rooms)
    ours = run_child([sys.executable, "-m", "benchmarks.measure.throughput.sokoban"], job)
    interpreter = sys.executable if upstream is None else str(upstream)
    theirs = run_child([interpreter, str(_HERE / "upstream_sokoban.py")], job)
    missing = theirs.get("missing")
    rooms = {}
    for name, mine in ours["rooms"].items():
        other = None if missing else theirs["rooms"][name]
        rooms[name] = _compare(mine, other)
    return {
        "suite": "sokoban",
        "package_version": __version__,
        "python": platform.python_version(),
        "upstream_missing": _MISSING.format(python=Path(interpreter).name) if missing else "",
        "upstream_python": theirs.get("python"),
        "upstream_numpy": theirs.get("numpy"),
        "cpu_seconds_per_measurement": seconds,
        "repeats": repeats,
        "rooms": rooms,
    }


def measure_alfworld(
    upstream: Path | None, seconds: float, repeats: int, data: Path | None = None, games: int = 6
) -> dict[str, Any]:
    """Return the figures of ALFWorld, ours and the stock engine's."""
    from benchmarks.measure.throughput.alfworld import make_job

    job = make_job(seconds, repeats, data, games)
    ours = run_child([sys.executable, "-m", "benchmarks.measure.throughput.alfworld"], job)
    interpreter = sys.executable if upstream is None else str(upstream)
    theirs = run_child([interpreter, str(_HERE / "upstream_alfworld.py")], job)
    missing = theirs.get("missing")
    return {
        "suite": "alfworld",
        "package_version": __version__,
        "python": platform.python_version(),
        "upstream_missing": ALFWORLD_MISSING.format(python=Path(interpreter).name) if missing else "",
        "upstream_python": theirs.get("python"),
        "source": "generated" if data is None else "real",
        "games": [row["task_id"] for row in job["games"]],
        "crowd": job["crowd"],
        "index_games": job["index_games"],
        "cpu_seconds_per_measurement": seconds,
        "repeats": repeats,
        **compare_alfworld(ours, None if missing else theirs),
    }


def measure_webshop(seconds: float, repeats: int, data: Path | None) -> dict[str, Any]:
    """Return the figures of WebShop."""
    from benchmarks.measure.throughput.webshop import make_job

    figures = run_child(
        [sys.executable, "-m", "benchmarks.measure.throughput.webshop"], make_job(seconds, repeats, data)
    )
    return {
        "suite": "webshop",
        "package_version": __version__,
        "python": platform.python_version(),
        "upstream_missing": "",
        "cpu_seconds_per_measurement": seconds,
        "repeats": repeats,
        **figures,
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
    table = Table("room", "what", "ours", "gym-sokoban 0.0.6", "ratio", title=title, title_justify="left", box=None)
    for name, row in figures["rooms"].items():
        shown = (
            ("steps, board", row["board_steps_per_s"], row.get("upstream_steps_per_s")),
            ("steps, text environment", row["text_steps_per_s"], row.get("upstream_steps_per_s")),
            ("rooms generated", row["rooms_per_s"], row.get("upstream_rooms_per_s")),
            ("rooms generated, median room", row["rooms_per_s_median"], row.get("upstream_rooms_per_s_median")),
            ("resets, text environment", row["text_resets_per_s"], row.get("upstream_rooms_per_s")),
        )
        for what, mine, other in shown:
            table.add_row(name, what, _number(mine), _number(other), f"{mine / other:.1f}x" if other else "")
        memory = row.get("upstream_kib")
        table.add_row(name, "KiB per board", _number(row["board_kib"]), _number(memory), "")
        table.add_row(name, "KiB per text environment", _number(row["text_kib"]), _number(memory), "")
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

"""Runs a throughput suite and shows ours beside the original's."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console

from agent_gym.support.checks import check_choice
from agent_gym.support.errors import AgentGymError, ConfigError
from agent_gym.terminal.progress import working
from benchmarks.measure.figures import write_figures
from benchmarks.measure.throughput.alfworld_report import alfworld_table, measure_alfworld
from benchmarks.measure.throughput.overview_report import run_overview
from benchmarks.measure.throughput.sokoban_report import measure_sokoban, sokoban_table
from benchmarks.measure.throughput.upstream.interpreters import Upstreams
from benchmarks.measure.throughput.webshop_report import measure_webshop, webshop_table


class Suite(StrEnum):
    """What can be measured."""

    ALL = "all"
    """Every environment in the same terms."""
    SOKOBAN = "sokoban"
    ALFWORLD = "alfworld"
    WEBSHOP = "webshop"
    SEARCHQA = "searchqa"


def run_suite(
    name: str,
    upstreams: Upstreams,
    seconds: float,
    repeats: int,
    output: Path | None,
    *,
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
    suite = check_choice("--env", Suite, name)
    if data is not None and suite in (Suite.ALL, Suite.SOKOBAN):
        raise ConfigError(f"--data names games or a catalogue; the suite {name!r} reads none")
    if plot is not None and suite is not Suite.ALL:
        raise ConfigError(f"--plot is of the suite {Suite.ALL.value!r}; the suite {name!r} draws none")
    if suite is Suite.ALL:
        run_overview(upstreams, seconds, repeats, output, plot)
    elif suite is Suite.SEARCHQA:
        from benchmarks.measure.throughput.searchqa import run_searchqa

        run_searchqa(seconds, repeats, data, output)
    else:
        with working("Measuring"):
            if suite is Suite.ALFWORLD:
                figures = measure_alfworld(upstreams.of(name), seconds, repeats, data)
                table, agree = alfworld_table(figures), figures.get("texts_agree", True)
            elif suite is Suite.WEBSHOP:
                figures, agree = measure_webshop(seconds, repeats, data), True
                table = webshop_table(figures)
            else:
                figures = measure_sokoban(upstreams.of(name), seconds, repeats)
                table = sokoban_table(figures)
                agree = all(row.get("returns_agree", True) for row in figures["rooms"].values())
        _show(table, figures, agree)
        write_figures(output, figures)


def _show(table: Any, figures: Mapping[str, Any], agree: bool) -> None:
    """Print the table and what is not installed.

    Raises:
        AgentGymError: The two sides did not do the same work.
    """
    console = Console()
    console.print(table)
    if figures["upstream_missing"]:
        console.print(figures["upstream_missing"], highlight=False, markup=False, soft_wrap=True)
    elif not agree:
        raise AgentGymError("the two sides played the same games and actions to different ends")

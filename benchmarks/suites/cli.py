"""The suite side of `agent-gym eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.agents import find_kind
from benchmarks.evaluate import estimate
from benchmarks.plan import EvalConfig
from benchmarks.progress import EvaluationProgress
from benchmarks.suites.run import PartResult, PartStatus, part_config, run_suite
from benchmarks.suites.suite import Suite, bundled_suites, load_suite


def show_suites() -> None:
    """Print the bundled suites, their parts and what is missing here."""
    console = Console()
    for name in bundled_suites():
        suite = load_suite(name)
        console.print(f"[bold]{name}[/bold]: {suite.about}", highlight=False)
        table = Table("part", "environment", "split", "tasks", "", box=None, pad_edge=False, show_header=False)
        for part in suite.parts:
            count = part.episodes or part.tasks
            note = "needs " + ", ".join(str(part.options[option]) for option in part.needs) if part.needs else ""
            table.add_row(f"  {part.name}", part.env, part.split, f"{count} tasks" if count else "all", note)
        console.print(table)


def evaluate_suite(
    name: str, agent: str, output: Path, base: EvalConfig, *, as_json: bool = False, only_estimate: bool = False
) -> bool:
    """Play a suite with a progress bar and print what came of it.

    Args:
        name: Name of the suite, or its file.
        agent: Name of the agent.
        output: Folder of the results.
        base: Settings that all parts share.
        as_json: Print JSON in place of a table.
        only_estimate: Print what asking the agent will take, and play nothing.

    Returns:
        Whether any episode ended in an error.
    """
    suite = load_suite(name)
    if only_estimate:
        _print_estimates(suite, agent, output, base)
        return False
    with EvaluationProgress(quiet=find_kind(agent).interactive) as shown:
        results = run_suite(
            suite,
            agent,
            output,
            base,
            on_part=lambda part: shown.begin(part.name),
            on_plan=shown.planned,
            on_estimate=shown.estimated,
            on_episode=shown.ended,
        )
    if as_json:
        typer.echo(json.dumps(_values(results), indent=2))
    else:
        _print(suite, agent, output, results)
    return any(found.result is not None and found.result.summary.n_error for found in results)


def _print_estimates(suite: Suite, agent: str, output: Path, base: EvalConfig) -> None:
    for part in suite.parts:
        if not part.missing():
            found = estimate(part_config(part, base, output), agent)
            typer.echo(f"{part.name}: {'no service is asked' if found is None else found.text()}")


def _values(results: list[PartResult]) -> list[dict[str, Any]]:
    return [
        {"part": found.part.name, "status": found.status.value, "reason": found.reason}
        if found.result is None
        else {
            "part": found.part.name,
            "status": found.status.value,
            "success": found.result.summary.success.value,
            "interval": [found.result.summary.success.low, found.result.summary.success.high],
            "score": found.result.summary.score.value,
            "n_ok": found.result.summary.n_ok,
            "n_error": found.result.summary.n_error,
        }
        for found in results
    ]


def _print(suite: Suite, agent: str, output: Path, results: list[PartResult]) -> None:
    console = Console()
    table = Table(title=f"{agent} on the suite {suite.name}", title_justify="left", box=None, pad_edge=False)
    for head, justify in (("part", "left"), ("success", "right"), ("95 %", "right"), ("score", "right")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    table.add_column("turns", justify="right")
    table.add_column("episodes", justify="right")
    for found in results:
        if found.result is None:
            continue
        summary = found.result.summary
        errors = f", {summary.n_error} errors" if summary.n_error else ""
        table.add_row(
            found.part.name,
            f"{summary.success.value:.3f}",
            f"{summary.success.low:.3f} to {summary.success.high:.3f}",
            f"{summary.score.value:.3f}",
            f"{summary.turns:.1f}",
            f"{summary.n_ok} of {summary.n_planned}{errors}",
        )
    console.print(table)
    for found in results:
        if found.status is PartStatus.SKIPPED:
            console.print(
                f"skipped {found.part.name}: {found.reason}", markup=False, highlight=False, style="yellow"
            )
    console.print(
        f"Results in {output}; compare them with `agent-gym leaderboard {output} ...`",
        markup=False,
        highlight=False,
    )

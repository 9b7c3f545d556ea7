"""The suite side of `agent-gym eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from benchmarks.evaluation.agents import find_kind
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.progress import EvaluationProgress
from benchmarks.evaluation.run import estimate
from benchmarks.evaluation.suites.run import PartResult, PartStatus, part_config, run_suite
from benchmarks.evaluation.suites.suite import Suite, bundled_suites, load_suite
from benchmarks.evaluation.tables import fitted


def show_suites() -> None:
    """Print the bundled suites, their parts and what is missing here."""
    console = Console()
    for name in bundled_suites():
        suite = load_suite(name)
        console.print(f"[bold]{name}[/bold]: {suite.about}", highlight=False)
        lines = []
        for part in suite.parts:
            count = part.episodes or part.tasks
            needs = ", ".join(str(part.options[option]) for option in part.needs)
            lines.append((part.name, f"{part.env}, {part.split}", f"{count:,}" if count else "all", needs))
        heads = ("part", "environment, split", "tasks", "needs" if any(line[-1] for line in lines) else "")
        console.print(fitted(heads, lines, console.width, left=(0, 1, 3), free=(1, 3)))
        console.print()


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
    lines = []
    for found in results:
        if found.result is None:
            continue
        summary = found.result.summary
        errors = f", {summary.n_error} errors" if summary.n_error else ""
        lines.append(
            (
                found.part.name,
                f"{summary.success.value:.3f}",
                f"{summary.success.low:.3f} to {summary.success.high:.3f}",
                f"{summary.score.value:.3f}",
                f"{summary.turns:.1f}",
                f"{summary.n_ok} of {summary.n_planned}{errors}",
            )
        )
    heads = ("part", "success", "95 %", "score", "turns", "episodes")
    console.print(fitted(heads, lines, console.width, title=f"{agent} on the suite {suite.name}"))
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

"""What `agent-gym bench sweep` does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure.sweep.config import STABILITY, SweepConfig
from benchmarks.measure.sweep.plot import plot
from benchmarks.measure.sweep.report import collect, verdict, write
from benchmarks.measure.sweep.runner import is_finished, run_path, run_sweep


def run(
    config: Path | None,
    folder: Path,
    *,
    algorithms: tuple[str, ...] | None,
    seeds: tuple[int, ...] | None,
    iterations: int | None,
    report_only: bool,
) -> None:
    """Run a sweep and write its table and figure.

    Args:
        config: Sweep file; the bundled stability sweep when None.
        folder: Folder of the sweep.
        algorithms: Run only these.
        seeds: Run these seeds.
        iterations: Run as many iterations.
        report_only: Run nothing.

    Raises:
        ConfigError: The sweep file, a name or a run in the folder does not fit.
    """
    sweep = SweepConfig.read(config or STABILITY).restricted(algorithms, seeds, iterations)
    folder.mkdir(parents=True, exist_ok=True)
    if not report_only:
        paths = [run_path(folder, name, seed) for seed in sweep.seeds for name in sweep.algorithms]
        missing = sum(not is_finished(path) for path in paths)
        console = Console(stderr=True)
        console.print(f"{missing} of {len(paths)} runs to do, in {folder}", highlight=False, markup=False)
        run_sweep(sweep, folder, _Lines(console), lambda name, seed: _announce(console, name, seed))
    report = collect(sweep, folder)
    write(report, folder)
    plot(report, folder / "sweep.png")
    out = Console()
    out.print(_table(report))
    for line in verdict(report):
        out.print(line.replace("`", ""), highlight=False, markup=False)
    out.print(
        f"Table, numbers and figure: sweep.md, sweep.json, sweep.png in {folder}", highlight=False, markup=False
    )


def _table(report: dict[str, Any]) -> Table:
    table = Table("algorithm", "seeds", "before", "after", "collapsed", title="Success", box=None)
    for name, runs in report["algorithms"].items():
        if runs:
            table.add_row(
                name,
                str(len(runs)),
                f"{fmean(run['before'] for run in runs):.3f}",
                f"{fmean(run['after'] for run in runs):.3f}",
                str(sum(run["collapsed"] for run in runs)),
            )
    return table


def _announce(console: Console, name: str, seed: int) -> None:
    console.print(f"{name}, seed {seed}", style="bold", highlight=False, markup=False)


class _Lines:
    """One line an iteration, without bars: a sweep's output is read afterwards."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Show one line."""
        self._console.print(text, highlight=False, markup=False)

    def phase(self, name: str, total: int) -> AbstractContextManager[Callable[..., None]]:
        """Return a context whose value does nothing."""
        return nullcontext(lambda *_: None)

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Show success, gradient norm, KL and valid format of one iteration."""
        shown = (
            f"{short} {metrics.get(name, float('nan')):.3g}"
            for short, name in (
                ("success", "rollout/success"),
                ("gradient", "optim/grad_norm"),
                ("KL", "policy/kl_reference"),
                ("format", "replies/valid_format"),
            )
        )
        self.say(f"  {number:>3}/{total}  {'  '.join(shown)}  {seconds:.1f} s")

    def evaluation(self, when: str, evaluation: Any) -> None:
        """Show the success of an evaluation."""
        self.say(f"  {when}: success {evaluation.success:.3f} on {evaluation.n_ok} episodes")

"""Progress of evaluations on the terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress

from agent_gym.terminal.progress import bar_columns
from benchmarks.evaluation.agents.estimate import Estimate
from benchmarks.evaluation.results import EpisodeRow

_LOG_SECONDS = 30.0


class EvaluationProgress:
    """A bar on standard error that follows an evaluation, or several one after another.

    Where no bar can be drawn (files, jobs) it says every half minute how far the evaluation is.

    Args:
        quiet: Show nothing (a person is playing at the terminal).
    """

    def __init__(self, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        # Where no bar can be drawn, one that stops would leave an empty line.
        self._progress = Progress(
            *bar_columns(), console=console, transient=True, disable=quiet or not console.is_terminal
        )
        self._bar = self._progress.add_task("Preparing", total=None, note="")
        self._name = "Episodes"
        self._won = self._played = 0
        self._logs = not quiet and not self._progress.console.is_terminal
        self._told = time.monotonic()

    def begin(self, name: str) -> None:
        """Start on the evaluation of that name."""
        self._name, self._won, self._played = name, 0, 0
        self._progress.reset(self._bar, description=name, total=None, note="")

    def planned(self, total: int, done: int) -> None:
        """Say how many episodes there are, and how many were played before."""
        self._progress.update(self._bar, description=self._name, total=total, completed=done)

    def estimated(self, found: Estimate) -> None:
        """Print what the evaluation will take."""
        self._say(found.text())

    def notice(self, text: str) -> None:
        """Print a sentence that a person should read."""
        self._say(text)

    def ended(self, row: EpisodeRow) -> None:
        """Count an episode that ended."""
        self._won += row.success
        self._played += not row.error
        note = f"success {self._won / self._played:.2f}" if self._played else ""
        self._progress.update(self._bar, advance=1, note=note)
        if self._logs and time.monotonic() - self._told >= _LOG_SECONDS:
            self._told = time.monotonic()
            task = self._progress.tasks[0]
            done = f"{self._name}: {task.completed:,.0f} of {task.total or 0:,.0f}"
            self._say(f"{done}, {note}" if note else done)

    def _say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

"""What a person at a terminal sees of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agent_gym.terminal.progress import bar_columns
from trainers.run.folder import REPORT
from trainers.run.results import Evaluation

_SHOWN = (
    ("success", "rollout/success", ".2f"),
    ("return", "rollout/return", "+.2f"),
    ("format", "replies/valid_format", ".2f"),
    ("entropy", "policy/entropy", ".3f"),
    ("KL", "policy/kl_reference", ".4f"),
    ("grad", "optim/grad_norm", ".2f"),
    ("kept", "filter/kept_share", ".2f"),
)
_EVERY = 10  # lines between headings
_LOG_SECONDS = 30.0


class ConsoleReporter:
    """Progress bars for long phases (a line every half minute where no bar can be drawn), one line an iteration.

    Args:
        console: Where to write; the terminal's standard error when None, so that results can be piped.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._lines = 0

    def say(self, text: str) -> None:
        """Show one line."""
        self.console.print(text, highlight=False, soft_wrap=True)

    @contextmanager
    def _log(self, name: str, total: int) -> Iterator[Callable[..., None]]:
        """Say now and then how far a phase is, where no bar can be drawn (files, jobs)."""
        done, told = 0, time.monotonic()

        def advance(note: str = "") -> None:
            nonlocal done, told
            done += 1
            if time.monotonic() - told >= _LOG_SECONDS:
                told = time.monotonic()
                self.say(f"{name}: {done:,} of {total:,}{', ' + note if note else ''}")

        self.say(f"{name}: {total:,} to do")
        yield advance

    @contextmanager
    def _bar(self, name: str, total: int) -> Iterator[Callable[..., None]]:
        with Progress(*bar_columns(), console=self.console, transient=True) as progress:
            task = progress.add_task(name, total=total, note="")
            yield lambda note="": progress.update(task, advance=1, note=note)

    def phase(self, name: str, total: int) -> Any:
        """Return a context manager whose value advances a progress bar, or a log, when called."""
        return self._bar(name, total) if self.console.is_terminal else self._log(name, total)

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Show the metrics of one iteration."""
        width = len(str(total))
        if self._lines % _EVERY == 0:
            head = " ".join(f"{name:>8}" for name, _, _ in _SHOWN)
            self.say(f"{'iteration':>{2 * width + 3}} {head} {'seconds':>8}")
        self._lines += 1
        values = (metrics.get(key) for _, key, _ in _SHOWN)
        cells = (
            f"{'-' if value is None else format(value, form):>8}"
            for value, (_, _, form) in zip(values, _SHOWN, strict=True)
        )
        self.say(f"{number:>{width + 2}}/{total} {' '.join(cells)} {seconds:>8.2f}")

    def evaluation(self, when: str, evaluation: Evaluation) -> None:
        """Show an evaluation."""
        failed = f", {evaluation.n_error} lost to environment errors" if evaluation.n_error else ""
        self.say(
            f"Evaluation ({when}): success {evaluation.success:.3f} ± {evaluation.standard_error:.3f} on "
            f"{evaluation.n_ok} episodes, {evaluation.turns:.1f} turns, valid format "
            f"{evaluation.valid_format:.2f}{failed}"
        )

    def summary(self, summary: dict[str, Any], folder: Path) -> None:
        """Show success before and after training, and where everything is."""
        before, after = summary.get("before"), summary.get("after")
        if before and after:
            table = Table("success on", "tasks", "cloned", "trained", "gain", box=None, pad_edge=False)
            for name, first in before.items():
                last = after[name]
                gain = last["success"] - first["success"]
                table.add_row(
                    f"{name} ({last['split']})",
                    f"{last['n_ok']:,}",
                    f"{first['success']:.3f}",
                    f"{last['success']:.3f}",
                    f"{gain:+.3f}",
                )
            self.console.print(table)
        page = folder / REPORT
        shown = f"page: {page}" if page.is_file() else f"page: agent-gym report {folder}"
        self.say(f"Run folder: {folder} ({shown}; curves: tensorboard --logdir {folder})")

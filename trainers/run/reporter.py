"""What a run tells whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from trainers.run.results import Evaluation


class Reporter(Protocol):
    """What the loop tells whoever watches; see `trainers.run.console`."""

    def say(self, text: str) -> None:
        """Show one line."""

    def phase(self, name: str, total: int) -> Any:
        """Return a context manager whose value advances a progress bar when called."""

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Show the metrics of one iteration."""

    def evaluation(self, when: str, evaluation: Evaluation) -> None:
        """Show an evaluation."""


@contextmanager
def _nothing() -> Iterator[Callable[..., None]]:
    yield lambda *_: None


class SilentReporter:
    """Says nothing; for tests and for embedding the trainer."""

    def say(self, text: str) -> None:
        """Ignore."""

    def phase(self, name: str, total: int) -> Any:
        """Return a context whose value does nothing."""
        return _nothing()

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Ignore."""

    def evaluation(self, when: str, evaluation: Evaluation) -> None:
        """Ignore."""

"""What every part of a run is given: its folder, its settings, who is told, who may stop it, which processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainers.policy.ranks import Ranks
from trainers.run.folder import RunFolder
from trainers.run.reporter import Reporter
from trainers.settings.run import TrainConfig


class RunStoppedError(Exception):
    """The run was asked to stop; what is done is kept."""


@dataclass(frozen=True)
class RunContext:
    """One run, seen from one of its processes.

    Attributes:
        folder: Run folder, new or to be resumed; only the main process writes to it.
        config: Settings of the run.
        reporter: Who is told of progress.
        should_stop: True in any process saves and ends the run. Asked during the cold start and the evaluations
            before and after, before the first iteration and after each; an iteration is always finished.
        ranks: The processes of the run.
    """

    folder: RunFolder
    config: TrainConfig
    reporter: Reporter
    should_stop: Callable[[], bool]
    ranks: Ranks

    def stopping(self) -> bool:
        """Return whether any process was asked to stop. All have to call it."""
        return self.ranks.any(self.should_stop())

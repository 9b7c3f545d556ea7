"""Watches a run while it trains: warnings into metrics, file and terminal, and the decision to stop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainers.run.detector import RunWarning, detect, timeline
from trainers.run.jsonl_log import JsonLog, read_log
from trainers.settings.warnings import WarningName, check_names

WARNINGS_FILE = "warnings.jsonl"


class WarningMonitor:
    """Looks at every iteration's metrics.

    Args:
        folder: Run folder; onsets of warnings are written to `warnings.jsonl` there.
        stop_on: Names of warnings that end the run; see `trainers.settings.warnings.check_names`.
        history: Rows of the iterations that an earlier part of the run has done.
        writes: False in a process that leaves the file to another one.
    """

    def __init__(
        self,
        folder: Path,
        stop_on: Sequence[str],
        history: Sequence[Mapping[str, Any]] = (),
        *,
        writes: bool = True,
    ) -> None:
        self._stop_on = check_names(stop_on)
        self._history: list[Mapping[str, Any]] = list(history)
        earlier = timeline(self._history)
        self._told = {warning.name for warning in earlier}
        self._holding = detect(self._history)
        rows = [warning.to_row() for warning in earlier]
        self._log = JsonLog(folder / WARNINGS_FILE, rows) if writes else None

    @property
    def history(self) -> Sequence[Mapping[str, Any]]:
        """The rows so far."""
        return self._history

    @property
    def stopping(self) -> RunWarning | None:
        """The warning that ends the run, or None."""
        return next((warning for warning in self._holding if warning.name in self._stop_on), None)

    def see(self, iteration: int, metrics: Mapping[str, float]) -> tuple[dict[str, float], list[RunWarning]]:
        """Take in one iteration.

        Returns:
            Metrics `warning/NAME`, 1 where the condition holds; and the warnings that the run had not shown yet.
        """
        row = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        self._history.append({"iteration": iteration, **row})
        before = {warning.name for warning in self._holding}
        self._holding = detect(self._history)
        onsets = [warning for warning in self._holding if warning.name not in before]
        if self._log is not None:
            self._log.append(*(warning.to_row() for warning in onsets))
        fresh = [warning for warning in self._holding if warning.name not in self._told]
        self._told |= {warning.name for warning in fresh}
        now = {warning.name for warning in self._holding}
        return {f"warning/{name.value}": float(name in now) for name in WarningName}, fresh


def read_warnings(folder: str | Path) -> list[dict[str, Any]]:
    """Return the onsets of warnings in a run folder, in order; see `trainers.run.jsonl_log.read_log`."""
    return read_log(Path(folder) / WARNINGS_FILE)

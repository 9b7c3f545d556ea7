"""Where metrics go: a JSON-lines file, TensorBoard, and a line on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from trainers.run.jsonl_log import JsonLog, read_log
from trainers.run.metrics import METRICS

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class Tracker(Protocol):
    """Takes the metrics of every iteration."""

    def log(self, iteration: int, values: Mapping[str, float], seconds: Mapping[str, float] | None = None) -> None:
        """Take the metrics of one iteration; see `RunTracker.log`."""
        ...

    def close(self) -> None:
        """Take no more."""
        ...


class NoTracker:
    """Keeps nothing: for processes that leave writing to another one."""

    def log(self, iteration: int, values: Mapping[str, float], seconds: Mapping[str, float] | None = None) -> None:
        """Ignore."""

    def close(self) -> None:
        """Nothing to close."""


class RunTracker:
    """Writes one row of metrics an iteration.

    A resumed run continues at `first_iteration`: rows from there on, written by a run that was stopped before
    its next checkpoint, are dropped, so that every iteration is there exactly once.

    Args:
        folder: Run folder.
        first_iteration: First iteration that will be written.
    """

    def __init__(self, folder: Path, first_iteration: int = 0) -> None:
        # TensorBoard's writer is slow to import; it is needed in a run only.
        from torch.utils.tensorboard import SummaryWriter

        self._log = JsonLog(folder / METRICS_FILE, before=first_iteration)
        purge = first_iteration if first_iteration else None
        self._board: Any = SummaryWriter(str(folder / TENSORBOARD_FOLDER), purge_step=purge)
        if not first_iteration:
            lines = "\n".join(f"- **{name}**: {text}" for name, text in METRICS.items())
            self._board.add_text("metrics", lines, 0)

    def log(self, iteration: int, values: Mapping[str, float], seconds: Mapping[str, float] | None = None) -> None:
        """Write the metrics of one iteration.

        Args:
            iteration: Its number.
            values: Metric name -> value; values that are not finite are written as null.
            seconds: Wall-clock seconds by phase, kept apart because they never repeat.
        """
        row: dict[str, Any] = {"iteration": iteration}
        for name, value in values.items():
            row[name] = value if math.isfinite(value) else None
            if math.isfinite(value):
                self._board.add_scalar(name, value, iteration)
        if seconds:
            row["seconds"] = {name: round(value, 4) for name, value in seconds.items()}
            for name, value in seconds.items():
                self._board.add_scalar(f"seconds/{name}", value, iteration)
        self._log.append(row)

    def close(self) -> None:
        """Flush and close."""
        self._board.close()


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a run folder's metrics; see `trainers.run.jsonl_log.read_log`."""
    return read_log(Path(folder) / METRICS_FILE)

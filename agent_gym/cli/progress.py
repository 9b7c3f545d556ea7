"""How the commands draw progress bars."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn


def bar_columns() -> tuple[ProgressColumn, ...]:
    """Return the columns of a bar: what is done, how much of how much, time left, and the task's field `note`."""
    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}"),
    )

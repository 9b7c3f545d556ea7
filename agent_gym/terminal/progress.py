"""How the commands show that they are at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
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


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """Show what the command is busy with, on standard error: a spinner, or a line where none can be drawn.

    Args:
        text: What it does first.

    Yields:
        A function that says what it does next.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text) as status:
            yield lambda text: status.update(text)
        return

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(text)
    yield say

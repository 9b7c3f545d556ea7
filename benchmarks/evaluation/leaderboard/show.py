"""A board on the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import RenderableType

from agent_gym.page.building import number, share
from agent_gym.support.errors import DataError
from agent_gym.support.files import write_whole
from agent_gym.support.intervals import Interval
from benchmarks.evaluation.leaderboard.board import Board, Row, Section
from benchmarks.evaluation.leaderboard.entries import Figures
from benchmarks.evaluation.tables import fitted

START, END = "<!-- leaderboard -->", "<!-- /leaderboard -->"
"""Lines in a Markdown file between which the tables are put."""


def section_title(section: Section) -> str:
    """Return what a table is about."""
    return f"{section.contest.name}, {section.contest.split}"


def section_facts(section: Section) -> str:
    """Return what all rows of a table share."""
    contest = section.contest
    turns = f"at most {contest.max_turns} turns" if contest.max_turns else "turns limited by task"
    return f"{contest.tasks} tasks, list {contest.digest[:12]}, {turns}"


def columns(section: Section, *, narrow: bool = False) -> list[str]:
    """Return the heads of a table's columns; `narrow` is for terminals."""
    return [head for head, _ in _pairs(section, section.rows[0], narrow)]


def cells(section: Section, row: Row, *, narrow: bool = False) -> list[str]:
    """Return the cells of a line, as many as `columns`."""
    return [text for _, text in _pairs(section, row, narrow)]


def _pairs(section: Section, row: Row, narrow: bool) -> list[tuple[str, str]]:
    """Return heads and cells of a line."""
    figures, ends = row.entry.figures, brackets if narrow else interval
    pairs = [
        ("agent", row.name),
        ("success", number(figures.success.value, ".3f")),
        ("95 %", ends(figures.success)),
    ]
    if section.reference and len(section.rows) > 1:
        found = row.comparison
        pairs += [
            (f"vs {section.reference}", "" if found is None else number(found.success.value, "+.3f")),
            ("95 %", "" if found is None else ends(found.success) + _on_fewer(section.contest.tasks, found.common)),
        ]
    if section.has_scores:
        pairs.append(("score", number(figures.score.value, ".3f")))
        pairs += [] if narrow else [("95 %", ends(figures.score))]
    for k in section.attempts:
        pairs.append((f"pass@{k} / pass^{k}", attempts(figures, k, section.contest.tasks)))
    pairs.append(("turns", number(figures.turns, ".1f")))
    if section.counts_tokens:
        pairs.append(("tokens", number(figures.reply_tokens, ",.0f")))
    if not narrow or any(
        one.entry.figures.invalid_format + one.entry.figures.invalid_action for one in section.rows
    ):
        pairs.append(("invalid", invalid(figures)))
    if not narrow or not all(one.entry.figures.whole for one in section.rows):
        pairs.append(("episodes", played(figures)))
    return pairs


def interval(found: Interval, form: str = ".3f") -> str:
    """Return an interval for people."""
    return f"{number(found.low, form)} to {number(found.high, form)}"


def brackets(found: Interval) -> str:
    """Return an interval in little space."""
    return f"[{number(found.low, '.2f')}, {number(found.high, '.2f')}]"


def invalid(figures: Figures) -> str:
    """Return the share of turns that were invalid in format or action."""
    return f"{share(figures.invalid_format)} / {share(figures.invalid_action)}"


def played(figures: Figures) -> str:
    """Return how many episodes were played, of how many where some are missing or failed."""
    if figures.whole:
        return f"{figures.n_ok:,}"
    errors = f", {figures.n_error:,} errors" if figures.n_error else ""
    return f"{figures.n_ok:,} of {figures.n_planned:,}{errors}"


def attempts(figures: Figures, k: int, tasks: int) -> str:
    """Return pass@k and pass^k, and how many tasks they rest on where not on all `tasks`."""
    rates = f"{number(figures.pass_at.get(k), '.3f')} / {number(figures.pass_hat.get(k), '.3f')}"
    return rates + _on_fewer(tasks, figures.pass_tasks.get(k, tasks))


def _on_fewer(tasks: int, used: int) -> str:
    """Return how many tasks a figure rests on, where not on all."""
    return "" if used == tasks else f", {used:,} task{'s' if used != 1 else ''}"


def terminal_tables(board: Board, width: int) -> list[RenderableType]:
    """Return a table for each task list, for lines of so many characters."""
    tables: list[RenderableType] = []
    for section in board.sections:
        lines = [cells(section, row, narrow=True) for row in section.rows]
        heads, title, facts = columns(section, narrow=True), section_title(section), section_facts(section)
        tables.append(fitted(heads, lines, width, title=title, caption=facts))
    return tables


def terminal_overview(board: Board, width: int) -> RenderableType:
    """Return the overview as one table, for lines of so many characters."""
    return fitted(*overview(board, narrow=True), width, left=(0, 1))


def overview(board: Board, *, narrow: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return heads and lines of one table with a line for each task list and a column for each agent."""
    agents = board.agents
    lines = []
    for section in board.sections:
        found = {row.name: row.entry.figures for row in section.rows}
        texts = [_rate(found[name], narrow) if name in found else "" for name in agents]
        lines.append([section.contest.name, section.contest.split, f"{section.contest.tasks:,}", *texts])
    return ["environment", "split", "tasks", *agents], lines


def _rate(figures: Figures, narrow: bool) -> str:
    """Return a success rate with its interval, and how much was played where not all was."""
    value, found = number(figures.success.value, ".3f"), figures.success
    text = f"{value} {brackets(found)}" if narrow else f"{value} ({interval(found)})"
    return text if figures.whole else f"{text}; {played(figures)}"


def markdown(board: Board, *, overview_only: bool = False) -> str:
    """Return the board as Markdown: an overview where there are several task lists, then a table for each."""
    parts = []
    if overview_only or len(board.sections) > 1:
        heads, lines = overview(board)
        parts.append(_grid(heads, lines, left=2))
    for section in () if overview_only else board.sections:
        grid = _grid(columns(section), [cells(section, row) for row in section.rows], left=1)
        parts.append(f"### {_plain(section_title(section))}\n\n{_plain(section_facts(section))}\n\n{grid}")
    return "\n\n".join(parts) + "\n"


def write_markdown(path: Path, text: str) -> None:
    """Write Markdown; in a file that has the two marker lines only what is between them is replaced.

    Raises:
        DataError: The file exists and has not both markers, in order.
    """
    if path.exists():
        old = path.read_text("utf-8")
        before, start, rest = old.partition(START)
        _, end, after = rest.partition(END)
        if not (start and end):
            raise DataError(
                f"{path} exists and has not the lines {START} and {END} between which the tables would go; "
                "add them or give another file"
            )
        text = f"{before}{START}\n\n{text}\n{END}{after}"
    write_whole(path, text)


def _grid(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int) -> str:
    rule = ["---" if place < left else "---:" for place in range(len(heads))]
    row: Callable[[Sequence[str]], str] = lambda texts: "| " + " | ".join(map(_plain, texts)) + " |"  # noqa: E731
    return "\n".join([row(heads), "|" + "|".join(rule) + "|", *map(row, lines)])


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marked = "".join(f"\\{sign}" if sign in "\\`*_[]|#" else sign for sign in safe)
    return " ".join(marked.split())

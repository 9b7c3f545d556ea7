"""Tables on a terminal in which no id and no number is ever cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

_GAP = 2
_LEAST = 20  # characters of a column that may wrap, from which on a word is broken


def fitted(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    width: int,
    *,
    left: Collection[int] = (0,),
    free: Collection[int] = (0,),
    title: str = "",
    caption: str = "",
) -> RenderableType:
    """Return a table, or where it does not fit a list with a line for each of its cells.

    Args:
        heads: Heads of the columns; none are shown when all are empty.
        lines: Cells, plain text.
        width: Characters of a terminal's line.
        left: Columns that are set to the left.
        free: Columns that may go on in the next line; the others keep their cells whole.
        title: What stands above.
        caption: What stands below.
    """
    widths = _widths(heads, lines, width, free)
    if widths is None:
        return _list(heads, lines, title, caption)
    table = Table(box=None, pad_edge=False, show_header=any(heads))
    for place, head in enumerate(heads):
        justify = "left" if place in left else "right"
        table.add_column(escape(head), justify=justify, overflow="fold", width=widths[place])  # type: ignore[arg-type]
    for line in lines:
        table.add_row(*map(escape, line))
    if title:
        table.title, table.title_justify = escape(title), "left"
    if caption:
        table.caption, table.caption_justify = escape(caption), "left"
    return table


def _widths(
    heads: Sequence[str], lines: Sequence[Sequence[str]], width: int, free: Collection[int]
) -> list[int] | None:
    """Return the widths of the columns, None where they do not fit."""
    cells = [[line[place] for line in lines] for place in range(len(heads))]
    most = [max(map(cell_len, (head, *column))) for head, column in zip(heads, cells, strict=True)]
    found = [
        min(_longest_word(head, *column), _LEAST) if place in free else max(map(cell_len, column), default=0)
        for place, (head, column) in enumerate(zip(heads, cells, strict=True))
    ]
    found = [max(size, _longest_word(head)) for size, head in zip(found, heads, strict=True)]
    spare = width - sum(found) - _GAP * (len(heads) - 1)
    if spare < 0:
        return None
    for place in sorted(range(len(heads)), key=lambda place: place not in free):
        more = min(spare, most[place] - found[place])
        found[place] += more
        spare -= more
    return found


def _longest_word(*texts: str) -> int:
    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def _list(heads: Sequence[str], lines: Sequence[Sequence[str]], title: str, caption: str) -> Group:
    parts: list[RenderableType] = [Text(title, "italic")] if title else []
    for line in lines:
        name, given = line[0].strip(), [cell for cell in line[1:] if cell]
        if len(given) < 2:  # one line will do
            parts.append(Text("  ".join([name, *given]).strip(), overflow="fold"))
            continue
        if name:
            parts.append(Text(name, "bold", overflow="fold"))
        grid = Table.grid(padding=(0, _GAP))
        for _ in range(2):
            grid.add_column(overflow="fold")
        for head, cell in zip(heads[1:], line[1:], strict=True):
            if cell:
                grid.add_row(f"  {escape(head)}", escape(cell))
        parts.append(grid)
    if caption:
        parts.append(Text(caption, "dim italic"))
    return Group(*parts)

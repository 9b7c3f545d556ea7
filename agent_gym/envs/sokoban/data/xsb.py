"""Texts that hold many levels: Boxoban files and community collections in XSB.

Both are lines of level rows with other text in between. Boxoban writes `; 17` before each level; community
collections write titles before or after the level, comments, and `Title:` / `Author:` lines. A row is a
line that holds a wall and consists mostly of level symbols, so that a row with a typing error is reported
instead of taken for a title. Run-length encoded rows are not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_gym.envs.sokoban.world.level import Level
from agent_gym.support.errors import DataError

_ROW_SYMBOLS = frozenset("#.$*@+ -_")
_KEYED = re.compile(r"^\s*([A-Za-z][A-Za-z ]{0,30}):\s*(.*)$")
_NUMBERED = re.compile(r"^;[ \t]*(\d+)[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True)
class NamedLevel:
    """A level of a collection.

    Attributes:
        name: Boxoban's number of the level, else its position in the text from 0.
        title: Title given in the text, "" when there is none.
        level: The level.
    """

    name: str
    title: str
    level: Level


@dataclass(frozen=True)
class LevelText:
    """The rows of one level, not yet read.

    Attributes:
        name: As in `NamedLevel`.
        title: As in `NamedLevel`.
        text: The rows.
        line: Number of the first row's line in the source, from 1.
    """

    name: str
    title: str
    text: str
    line: int

    def read(self, source: str) -> NamedLevel:
        """Read the level.

        Raises:
            DataError: The level is malformed; names the source, the level, its line, and where in it.
        """
        try:
            level = Level.from_xsb(self.text)
        except DataError as error:
            title = f" ({self.title!r})" if self.title not in ("", self.name) else ""
            raise DataError(
                f"{source}: level {self.name}{title}, which starts on line {self.line}: {error}"
            ) from None
        return NamedLevel(self.name, self.title, level)


def parse_levels(text: str, source: str = "text") -> list[NamedLevel]:
    """Read every level of a Boxoban or XSB text.

    Args:
        text: The whole text.
        source: What errors call it, such as the file's path.

    Raises:
        DataError: The text holds no level, or one is malformed.
    """
    levels = [part.read(source) for part in split_levels(text)]
    if not levels:
        raise DataError(
            f"{source}: no level found; expected rows of '#' walls with '@' player, '$' boxes and '.' goals, "
            "levels separated by blank lines, titles or '; n' lines"
        )
    return levels


def split_levels(text: str) -> list[LevelText]:
    """Split a text into its levels without reading them."""
    found: list[tuple[int, list[str]]] = []
    titles: list[str] = []
    rows: list[str] | None = None
    below_rows = False
    pending = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if _is_row(line):
            if rows is None:
                rows = []
                found.append((number, rows))
                titles.append(pending)
                pending = ""
            rows.append(line)
            below_rows = True
            continue
        rows = None
        words = line.strip()
        title, keyed = _title(words)
        below_rows = below_rows and bool(words) and not words.startswith(";")
        # Text right below the rows belongs to them unless they already have a title.
        if title and below_rows and (keyed or not titles[-1]):
            titles[-1] = title
        elif title:
            pending = title
    return _named(found, titles)


def level_names(text: str) -> list[str]:
    """Return the names of a text's levels, faster than splitting where every level has Boxoban's number."""
    names = _NUMBERED.findall(text)
    if names and len(names) == text.count(";") and len(set(names)) == len(names):
        return names
    return [part.name for part in split_levels(text)]


def _is_row(line: str) -> bool:
    symbols = line.strip()
    if "#" not in symbols or symbols[0] not in _ROW_SYMBOLS:
        return False
    return 2 * sum(symbol in _ROW_SYMBOLS for symbol in symbols) > len(symbols)


def _title(words: str) -> tuple[str, bool]:
    """Return the title that a line of text gives ("" for none) and whether it is a `Title:` line."""
    if words.startswith(";"):
        return words.lstrip("; \t"), False
    keyed = _KEYED.match(words)
    if keyed is None:
        return words, False
    return (keyed[2].strip(), True) if keyed[1].lower() == "title" else ("", False)


def _named(found: list[tuple[int, list[str]]], titles: list[str]) -> list[LevelText]:
    numbered = bool(titles) and all(title.isdecimal() for title in titles) and len(set(titles)) == len(titles)
    return [
        LevelText(title if numbered else str(index), title, "\n".join(rows), line)
        for index, ((line, rows), title) in enumerate(zip(found, titles, strict=True))
    ]

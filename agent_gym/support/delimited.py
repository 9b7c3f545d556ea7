"""Rows of CSV and TSV files, whatever their delimiter.

A quotation mark out of place makes the usual readers swallow every row up to the next one. Here it is an error that
names its line. In a file with tabs, where quotation marks rarely mean anything, a line with as many columns as the
header is a row by itself.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from agent_gym.support.errors import DataError

DELIMITERS: Final = "\t,;|"
_SHOWN = 80
_DECLARED = re.compile(r"sep=(.)")
_QUOTES = 'a text with quotation marks or line breaks stands in quotes, and a quotation mark in it is doubled ("")'

Headings = Callable[[Sequence[str]], Sequence[str] | None]
"""Told the first line's fields: the columns' names where the line is one of the rows, else None; it raises
DataError where it knows the fields neither as names nor as values."""


def table_rows(lines: Iterator[bytes], name: object, headings: Headings) -> Iterator[dict[str, str] | str]:
    """Yield the rows of a delimited text: a mapping from column to text, or what is wrong with the row.

    Args:
        lines: Lines in UTF-8.
        name: What messages call the file.
        headings: Tells a header from a row.

    Raises:
        DataError: The first line is no header, or a quotation mark is out of place; names the line.
    """
    text = _decoded(lines, name)
    first = next((line for line in text if line.strip()), "")
    declared = _DECLARED.fullmatch(first.strip())
    if declared:  # as spreadsheets write it
        first = next((line for line in text if line.strip()), "")
    delimiter, fields, columns = _header(first, declared[1] if declared else DELIMITERS, name, headings)

    def rest() -> Iterator[str]:
        if columns is not None:
            yield first
        yield from text

    names = fields if columns is None else list(columns)
    split = _tabbed(rest(), len(names)) if delimiter == "\t" else _quoted(rest(), delimiter, len(names), name)
    for values in split:
        while len(values) > len(names) and not values[-1]:
            values = values[:-1]
        if len(values) > len(names):
            yield (
                f"expected {len(names)} columns as in the header, got {len(values)}; a text that holds the "
                f"delimiter {delimiter!r} stands in quotes"
            )
        elif any(value.strip() for value in values):
            yield dict(zip(names, values, strict=False))


def _decoded(lines: Iterator[bytes], name: object) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}, line {number} is not UTF-8 ({error}); save the file as UTF-8") from error


def _header(
    line: str, delimiters: str, name: object, headings: Headings
) -> tuple[str, list[str], Sequence[str] | None]:
    """Return delimiter, fields and headings of the first line: the delimiter that makes the most known columns."""
    best: tuple[str, list[str], Sequence[str] | None] | None = None
    problem: DataError | None = None
    for delimiter in delimiters:
        fields = _fields(line, delimiter)
        try:
            columns = headings(fields)
        except DataError as error:
            problem = problem or error
            continue
        if best is None or len(fields) > len(best[1]):
            best = delimiter, fields, columns
    if best is None:
        shown = line.strip()[:_SHOWN]
        raise DataError(
            f"{name} is neither JSON nor a table with known columns: its first line is {shown!r} ({problem})"
        )
    return best


def _fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line that is a row by itself; quotes that make no sense are plain text."""
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    except csv.Error:
        return [field.strip() for field in line.rstrip("\r\n").split(delimiter)]


def _tabbed(lines: Iterator[str], columns: int) -> Iterator[list[str]]:
    for line in lines:
        if line.count("\t") < columns - 1 and '"' in line:
            for more in lines:  # a text with line breaks, in quotes
                line += more
                if line.count("\t") >= columns - 1 and line.rstrip().count('"') % 2 == 0:
                    break
        yield _fields(line, "\t") if line.strip() else []


def _quoted(lines: Iterator[str], delimiter: str, columns: int, name: object) -> Iterator[list[str]]:
    taken: list[str] = []

    def noting() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    reader: Any = csv.reader(noting(), delimiter=delimiter, strict=True, skipinitialspace=True)
    start = 2  # the header is line 1
    while True:
        taken.clear()
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{name}: the row that starts on line {start} ({taken[0].strip()[:_SHOWN]!r}) has a quotation mark "
                f"out of place ({error}); {_QUOTES}"
            ) from error
        if values is None:
            return
        swallowed = taken[1:-1]
        if len(swallowed) > 1 and all(len(_fields(line, delimiter)) == columns > 1 for line in swallowed):
            raise DataError(
                f"{name}: the quotation mark in line {start} ({taken[0].strip()[:_SHOWN]!r}) would make one text "
                f"of {len(taken)} lines that are rows themselves; {_QUOTES}"
            )
        start += len(taken)
        yield values

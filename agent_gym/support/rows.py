"""Rows of a data file, whatever its container and whatever its name ends in.

| container | told by |
|---|---|
| gzip, xz, bzip2 around any of these | first bytes |
| parquet (extra `[search]`) | first bytes |
| JSON lines, also JSON objects one after another | a line that is an object by itself, and further ones |
| one JSON document: a list; an object around a list; a table by columns, as pandas writes them | the whole text |
| CSV and TSV with tab, comma, semicolon or bar | a first line of known column names |
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_gym.support.containers import HEAD_BYTES, PARQUET, text_lines, unpacked
from agent_gym.support.delimited import table_rows
from agent_gym.support.errors import DataError
from agent_gym.support.files import DAMAGES

_LISTS: Final = frozenset(
    ("data", "rows", "questions", "examples", "instances", "items", "documents", "passages", "train", "test", "dev")
)
"""Keys, in lower case, under which a JSON document may hold its list."""
_LONGEST_ROW: Final = 1 << 26
_BLANKS: Final = b" \t\r\n"


@dataclass(frozen=True)
class Layout:
    """What a reader knows of the rows that it wants.

    Attributes:
        knows: Whether a key or column name means something to the reader.
        headings: Tells the header of a table from a row; see `delimited.Headings`.
        most: Most bytes of a JSON document, which is read whole; the other containers are streamed.
        total: Most bytes of a file, decompressed; None for any number.
    """

    knows: Callable[[str], bool]
    headings: Callable[[Sequence[str]], Sequence[str] | None]
    most: int
    total: int | None = None


class Row(NamedTuple):
    """One row.

    Attributes:
        number: Its number, from 1.
        line: Line on which it stands in JSON lines, else 0.
        value: What it holds, None where it cannot be read.
        problem: Why it cannot be read, "" where it can.
    """

    number: int
    line: int
    value: Any
    problem: str = ""


def plain_key(key: object) -> str:
    """Return a key or column name with only its letters and digits, in lower case: what spellings share."""
    return "".join(letter for letter in str(key).casefold() if letter.isalnum())


def read_rows(raw: io.BufferedReader, path: Path, layout: Layout, start: int = 0) -> Iterator[Row]:
    """Yield the rows of a file.

    Args:
        raw: The file, open at its start.
        path: Its path, for messages.
        layout: What is wanted.
        start: Rows at the start that nobody wants; where that saves time they are not read, and have no value.

    Raises:
        DataError: The file as a whole cannot be read; the message names it, says what was tried and what to do.
    """
    stream = unpacked(raw, path)
    if stream.peek(HEAD_BYTES)[:4] == PARQUET:
        yield from _parquet(stream, path, layout)
        return
    lines = _bounded(text_lines(stream, path, max(_LONGEST_ROW, layout.most)), path, layout.total)
    first = next(lines, None)
    if first is None:
        return
    if first.text.lstrip(_BLANKS)[:1] in (b"{", b"["):
        yield from _json(first, lines, path, layout, start)
        return
    texts = (line.text for line in itertools.chain([first], lines))
    for number, row in enumerate(table_rows(texts, path, layout.headings), 1):
        yield Row(number, 0, None, row) if isinstance(row, str) else Row(number, 0, row)


class _Line(NamedTuple):
    number: int
    text: bytes


def _bounded(lines: Iterator[bytes], path: Path, most: int | None) -> Iterator[_Line]:
    """Yield lines with their numbers from the first one on that is not blank."""
    size, begun = 0, False
    for number, line in enumerate(lines, 1):
        size += len(line)
        if most is not None and size > most:
            raise DataError(f"{path} holds more than the {most:,} bytes that are read; split it")
        begun = begun or bool(line.strip(_BLANKS))
        if begun:
            yield _Line(number, line)


# JSON -----------------------------------------------------------------------------------------------------------


def _json(first: _Line, lines: Iterator[_Line], path: Path, layout: Layout, start: int) -> Iterator[Row]:
    """Yield the rows of JSON lines, or of one or several documents.

    Lines it is where the first one is an object and more follow. Where the first line is no JSON, the text may be a
    document over several lines, or the line may be damaged, which the second one tells.
    """
    value, problem = _loaded(first.text)
    second = next((line for line in lines if line.text.strip(_BLANKS)), None)
    if not problem and second is None:
        yield from (Row(number, 0, row) for number, row in enumerate(_rows_of(value, layout), 1))
    elif problem and (second is None or not _is_object(second.text)):
        given = [first.text] if second is None else [first.text, second.text]
        text = _whole(given, lines, path, layout.most)
        try:
            documents = list(_documents(text))
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path} is neither JSON lines (line {first.number}: expected a JSON object, {problem}) nor a JSON "
                f"document ({_said(error)}); mend the line, or download a file that was cut again"
            ) from error
        rows = _rows_of(documents[0], layout) if len(documents) == 1 else documents
        yield from (Row(number, 0, row) for number, row in enumerate(rows, 1))
    else:
        yield Row(1, first.number, value, problem)
        count = 1
        for line in itertools.chain([second] if second is not None else [], lines):
            if line.text.strip(_BLANKS):
                count += 1
                loaded = _loaded(line.text) if count > start else (None, "")
                yield Row(count, line.number, *loaded)


def _is_object(line: bytes) -> bool:
    return isinstance(_loaded(line)[0], dict)


def _loaded(line: bytes) -> tuple[Any, str]:
    """Return the value of a line and why it has none."""
    try:
        return json.loads(line), ""
    except (ValueError, RecursionError) as error:
        return None, f"got {line[:60]!r} ({_said(error)})"


def _said(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


def _whole(start: list[bytes], lines: Iterator[_Line], path: Path, most: int) -> str:
    parts, size = start, sum(map(len, start))
    for line in lines:
        size += len(line.text)
        if size > most:
            raise DataError(f"{path} is a JSON document of more than {most:,} bytes; write it as JSON lines")
        parts.append(line.text)
    try:
        return b"".join(parts).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error}); save it as UTF-8") from error


def _documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents that follow one another in a text."""
    reader = json.JSONDecoder()
    at = 0
    while at < len(text):
        value, at = reader.raw_decode(text, at)
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _rows_of(document: Any, layout: Layout) -> Sequence[Any]:
    """Return the rows of a document: a list, an object around one, columns, rows by id, or one row."""
    if isinstance(document, list):
        return [_unwrapped(row) for row in document]
    if not isinstance(document, Mapping):
        return [document]
    values = list(document.values())
    known = sum(map(layout.knows, document)) >= 2
    lists = [value for key, value in document.items() if key.lower() in _LISTS and isinstance(value, list)]
    if not known and len(lists) == 1:
        return [_unwrapped(row) for row in lists[0]]
    if known and values and all(isinstance(value, Mapping) for value in values):
        indices = list(dict.fromkeys(itertools.chain.from_iterable(values)))
        return [{key: column.get(index) for key, column in document.items()} for index in indices]
    if known and all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*values, strict=True)]
    if values and all(isinstance(value, Mapping) for value in values):
        return [{"id": key, **row} for key, row in document.items()]
    return [document]


def _unwrapped(row: Any) -> Any:
    """Return the row of an element `{"row_idx", "row"}`, as the dataset server of Hugging Face answers."""
    if isinstance(row, Mapping) and "row_idx" in row and isinstance(row.get("row"), Mapping):
        return row["row"]
    return row


# Parquet --------------------------------------------------------------------------------------------------------


def _parquet(stream: Any, path: Path, layout: Layout) -> Iterator[Row]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path}: reading parquet needs pyarrow; pip install 'agent-gym[search]'") from None
    try:
        file = pyarrow.parquet.ParquetFile(stream)
        columns = [name for name in file.schema_arrow.names if layout.knows(name)]
        if not columns:
            layout.headings(file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(batch_size=4_096, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield Row(number, 0, row)
    except (*DAMAGES, pyarrow.ArrowException) as error:
        raise DataError(f"{path} is not readable as parquet: {error}") from error

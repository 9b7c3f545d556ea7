"""Reads corpus files: JSON lines, plain or compressed, one passage a row.

Accepted rows: `{"id", "contents"}` with `contents` = `"Title"\\ntext` (the published wiki-18 form), and
`{"id" or "_id", "title", "text"}` (BEIR). Other keys are ignored. An id may be a number.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from agent_gym.retrieval.base import Passage, clean_text
from agent_gym.support.errors import DataError
from agent_gym.support.files import DAMAGES


class CorpusReader:
    """Streams the passages of a corpus file.

    Args:
        path: `.jsonl`, `.jsonl.gz` or `.jsonl.xz`.

    Attributes:
        path: The file.
        size: Its length in bytes, compressed if it is.

    Raises:
        DataError: There is no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise DataError(f"no corpus at {path}; expected JSON lines (.jsonl, .jsonl.gz or .jsonl.xz)")
        self.path = path
        self.size = path.stat().st_size
        self._raw: BinaryIO | None = None

    @property
    def bytes_read(self) -> int:
        """Bytes of the file consumed so far by the iteration in progress."""
        return self._raw.tell() if self._raw is not None and not self._raw.closed else 0

    def __iter__(self) -> Iterator[Passage]:
        return self.passages()

    def passages(self, start: int = 0) -> Iterator[Passage]:
        """Yield passages from number `start` on; the rows before are skipped without being parsed.

        Raises:
            DataError: A row is no passage; the message names its line.
        """
        with self.path.open("rb") as raw:
            self._raw = raw
            doc = 0
            for number, line in enumerate(self._lines(raw), 1):
                if line.isspace():
                    continue
                doc += 1
                if doc > start:
                    yield parse_row(line, f"{self.path}, line {number}")

    def _lines(self, raw: BinaryIO) -> Iterator[bytes]:
        opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(self.path.suffix)
        if opener is None:
            yield from raw
            return
        try:
            with opener(raw) as stream:
                yield from stream
        except DAMAGES as error:
            raise DataError(f"{self.path} cannot be decompressed: {error}") from error


def parse_row(line: bytes | str, place: str) -> Passage:
    """Return the passage of a corpus row.

    Args:
        line: One JSON object.
        place: Where the row stands, for messages.

    Raises:
        DataError: The row is no passage.
    """
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: expected a JSON object, got {line[:60]!r} ({error})") from error
    if not isinstance(row, dict):
        raise DataError(f"{place}: expected a JSON object, got {type(row).__name__}")
    id = row.get("id", row.get("_id"))
    if not isinstance(id, str | int) or isinstance(id, bool):
        raise DataError(f'{place}: expected "id" to be a text or a number, got {id!r}')
    title, text, contents = row.get("title"), row.get("text"), row.get("contents")
    if isinstance(contents, str):
        return Passage.from_contents(clean_text(str(id)), clean_text(contents))
    if isinstance(text, str):
        return Passage(clean_text(str(id)), clean_text(title if isinstance(title, str) else ""), clean_text(text))
    raise DataError(f'{place}: a passage has "contents", or "title" and "text"; got the keys {sorted(row)}')

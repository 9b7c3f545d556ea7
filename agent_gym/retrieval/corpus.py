"""Reads corpus files: passages in every published form and container, told by content.

| row | published as |
|---|---|
| `{"id", "contents"}` with contents = quoted title, line break, text | wiki-18, FlashRAG |
| `{"id" or "_id", "title", "text"}` | BEIR; `text` may be a list of sentences or paragraphs (HotpotQA, KILT) |
| columns `id`, `text`, `title` | DPR's `psgs_w100.tsv`; CSV with any usual delimiter |
| a number, a tab, a text | MS MARCO's `collection.tsv`, without a header |

Containers are those of `agent_gym.support.rows`. Case, blanks and underscores of keys do not matter, other keys are
ignored, an id may be a number, and a row without an id has its number, from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from agent_gym.retrieval.base import Passage, clean_text
from agent_gym.support.errors import DataError
from agent_gym.support.rows import Layout, plain_key, read_rows

_ID: Final = ("id", "pid", "docid", "passageid", "documentid")
_TITLE: Final = ("title", "wikipediatitle", "pagetitle", "documenttitle")
_TEXT: Final = ("text", "passage", "passagetext", "content", "paragraph", "paragraphtext", "documenttext")
_CONTENTS: Final = "contents"
_KNOWN: Final = frozenset((*_ID, *_TITLE, *_TEXT, _CONTENTS))
_MOST_DOCUMENT: Final = 1 << 30
"""Most bytes of one JSON document, which is read whole; JSON lines, tables and parquet are streamed at any size."""
_UNDERSTOOD: Final = "id, title, text, passage, content or contents"


class CorpusReader:
    """Streams the passages of a corpus file.

    Args:
        path: The file; what it is packed in is told by its content.

    Attributes:
        path: The file.
        size: Its length in bytes, compressed if it is.

    Raises:
        DataError: There is no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise DataError(f"no corpus at {path}; expected JSON lines, TSV, CSV or parquet, also as .gz or .xz")
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
        """Yield passages from number `start` on; the rows before are skipped without being looked at.

        Raises:
            DataError: A row is no passage; the message names its line.
        """
        with self.path.open("rb") as raw:
            self._raw = raw
            for row in read_rows(raw, self.path, _LAYOUT, start):
                if row.number <= start:
                    continue
                place = f"{self.path}, line {row.line}" if row.line else f"{self.path}, row {row.number}"
                if row.problem:
                    raise DataError(f"{place}: expected a JSON object, {row.problem}")
                yield row_passage(row.value, place, row.number - 1)


def row_passage(row: Any, place: str, number: int) -> Passage:
    """Return the passage of a row.

    Args:
        row: Its keys and values.
        place: Where it stands, for messages.
        number: Its id where it tells none.

    Raises:
        DataError: The row is no passage.
    """
    if not isinstance(row, Mapping):
        raise DataError(f"{place}: expected a JSON object, got {type(row).__name__}")
    parts: dict[str, Any] = {}
    for key, value in row.items():
        parts.setdefault(plain_key(key), value)
    name = next((parts[key] for key in _ID if key in parts), number)
    if isinstance(name, float) and name.is_integer():
        name = int(name)  # a column of whole numbers with a gap, in parquet
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise DataError(f'{place}: expected "id" to be a text or a number, got {name!r:.80}')
    contents = parts.get(_CONTENTS)
    if isinstance(contents, str):
        return Passage.from_contents(clean_text(str(name)), clean_text(contents))
    text = next((joined for key in _TEXT if (joined := _joined(parts.get(key))) is not None), None)
    if text is None:
        keys = sorted(str(key)[:40] for key in row)[:12]
        raise DataError(
            f'{place}: a passage has "contents", or "title" and "text"; got the keys {keys}; understood are '
            f"{_UNDERSTOOD}"
        )
    title = next((parts[key] for key in _TITLE if isinstance(parts.get(key), str)), "")
    return Passage(clean_text(str(name)), clean_text(title), clean_text(text))


def _joined(text: Any) -> str | None:
    """Return a text, or sentences and paragraphs as one; None for anything else."""
    if isinstance(text, str):
        return text
    if not isinstance(text, list | tuple):
        return None
    inner = [_joined(part) for part in text]
    return None if None in inner else " ".join(part.strip() for part in inner if part and part.strip())


def _headings(fields: Sequence[str]) -> Sequence[str] | None:
    names = [plain_key(field) for field in fields]
    if any(name in _TEXT or name == _CONTENTS for name in names):
        return None
    if len(fields) in (2, 3) and fields[0].isdecimal():
        return ("id", "text", "title")[: len(fields)]
    raise DataError(f"understood are {_UNDERSTOOD}; there are {list(fields)[:12]}"[:600])


_LAYOUT: Final = Layout(lambda key: plain_key(key) in _KNOWN, _headings, most=_MOST_DOCUMENT)

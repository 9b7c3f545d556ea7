"""Reads the official files: plain, .gz or .xz, one record at a time.

A record of the product file is five kilobytes of JSON and the file holds 1.2 million, so it is never loaded; of the
attribute file only the text of each entry is kept.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent_gym.envs.webshop.data.building import build_store, check_target
from agent_gym.envs.webshop.data.store import Store
from agent_gym.envs.webshop.world.product import Product, clean, usable
from agent_gym.support.errors import DataError
from agent_gym.support.files import DAMAGES

PRODUCTS: Final = ("items_shuffle.json", "items_shuffle_1000.json")
ATTRIBUTES: Final = ("items_ins_v2.json", "items_ins_v2_1000.json")
HUMAN: Final = "items_human_ins.json"
NOUNS: Final = "title_nouns.json"
_PACKED: Final = ("", ".gz", ".xz")
_CHUNK: Final = 1 << 20
_LONGEST: Final = 64 << 20
"""Characters of one value; what is longer is no record but a broken file."""
_BLANKS: Final = " \t\r\n"
_EXPECTED: Final = f"{PRODUCTS[0]}, {ATTRIBUTES[0]} and, for human goals, {HUMAN} (each plain, .gz or .xz)"

Progress = Callable[[int, int, int], None]
"""Called with bytes read, bytes in all and products kept."""


@dataclass(frozen=True)
class OfficialFiles:
    """The files of a catalogue.

    Attributes:
        products: Product records.
        attributes: Attributes and base instructions.
        human: Human instructions, None where the folder has none.
        nouns: Nouns of titles (an object identifier -> list of nouns), None where the folder has none.
    """

    products: Path
    attributes: Path
    human: Path | None = None
    nouns: Path | None = None

    @classmethod
    def find(cls, folder: str | Path, *, small: bool = False) -> OfficialFiles:
        """Return the files of a folder.

        Args:
            folder: Where they lie.
            small: Whether the 1,000-product subset is meant where both are there.

        Raises:
            DataError: A file is missing; the message says what was found.
        """
        folder = Path(folder)
        order = (1, 0) if small else (0, 1)
        for place in order:
            products, attributes = _present(folder, PRODUCTS[place]), _present(folder, ATTRIBUTES[place])
            if products and attributes:
                return cls(products, attributes, _present(folder, HUMAN), _present(folder, NOUNS))
        found = sorted(path.name for path in folder.iterdir())[:8] if folder.is_dir() else []
        raise DataError(f"{folder} holds no catalogue: expected {_EXPECTED}; found {', '.join(found) or 'nothing'}")


def import_catalog(
    files: OfficialFiles,
    target: str | Path,
    *,
    price_seed: int = 0,
    limit: int | None = None,
    nouns: Mapping[str, Sequence[str]] | Callable[[str], Sequence[str]] | None = None,
    on_progress: Progress | None = None,
    replace: bool = False,
) -> Store:
    """Write the store of a catalogue in the official format.

    Args:
        files: The files.
        target: Folder of the store.
        price_seed: Seed of the price table and of the price limits.
        limit: Read only this many records, as the original's `num_products`.
        nouns: Nouns of the titles: a table by identifier, or a function of the title; None takes the table
            beside the files, if any.
        on_progress: Called now and then.
        replace: Whether a store that is there may be replaced.

    Raises:
        DataError: A file is missing or malformed, or the target exists.
    """
    check_target(Path(target), replace=replace)  # before minutes of reading
    reader = _Reader(on_progress)
    attributes = dict(reader.pairs(files.attributes))
    human: Mapping[str, Sequence[Mapping[str, Any]]] = {} if files.human is None else reader.whole(files.human)
    table = nouns
    if table is None and files.nouns is not None:
        table = reader.whole(files.nouns)

    def nouns_of(product: Product) -> Sequence[str] | None:
        if callable(table):
            return table(product.title)
        assert table is not None
        return table.get(product.asin)

    return build_store(
        target,
        reader.products(files.products, attributes, limit),
        lambda asin: human.get(asin, ()),
        price_seed=price_seed,
        nouns=None if table is None else nouns_of,
        sources=lambda: {"files": reader.sources, "limit": limit},
        replace=replace,
    )


def read_json_file(path: Path) -> Any:
    """Return the content of a JSON file, decompressed by its name.

    Raises:
        DataError: The file is missing or no JSON.
    """
    try:
        with path.open("rb") as raw, _decompressed(path, raw) as stream:
            return json.load(stream)
    except (*DAMAGES, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error


@dataclass
class _Reader:
    """Reads files while hashing their bytes, and reports progress."""

    on_progress: Progress | None
    sources: dict[str, Any] = field(default_factory=dict)

    def whole(self, path: Path) -> Any:
        """Return a file's content."""
        with _Hashed(path) as raw:
            try:
                with _decompressed(path, raw) as stream:
                    found = json.load(stream)
            except (*DAMAGES, ValueError, RecursionError) as error:
                raise DataError(f"{path} cannot be read as JSON: {error}") from error
        self.sources[path.name] = raw.record()
        return found

    def pairs(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield the keys of the file's object with the text of their values."""
        with _Hashed(path) as raw:
            with _decompressed(path, raw) as stream:
                yield from _pairs(_Text(path, stream))
            raw.drain()
        self.sources[path.name] = raw.record()

    def products(self, path: Path, attributes: Mapping[str, str], limit: int | None) -> Iterator[Product]:
        """Yield the cleaned products of a file, each identifier once."""
        seen: set[str] = set()
        size = path.stat().st_size
        with _Hashed(path) as raw:
            with _decompressed(path, raw) as stream:
                for number, record in enumerate(_items(_Text(path, stream))):
                    if limit is not None and number >= limit:
                        break
                    asin: Any = record.get("asin")
                    if usable(asin) and asin not in seen:
                        seen.add(asin)
                        entry = attributes.get(asin)
                        yield clean(record, None if entry is None else json.loads(entry))
                    if self.on_progress is not None and number % 1000 == 0:
                        self.on_progress(raw.bytes, size, len(seen))
            raw.drain()
        if self.on_progress is not None:
            self.on_progress(size, size, len(seen))
        self.sources[path.name] = raw.record()


class _Hashed:
    """A file whose bytes are counted and hashed as they are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self.bytes = 0

    def __enter__(self) -> _Hashed:
        try:
            self._stream = self._path.open("rb")
        except OSError as error:
            raise DataError(f"{self._path} cannot be read: {error.strerror or error}") from error
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        """Read bytes, as binary files do."""
        block = self._stream.read(size)
        self._digest.update(block)
        self.bytes += len(block)
        return block

    def readable(self) -> bool:
        return True

    def drain(self) -> None:
        """Read the rest, for the hash."""
        while self.read(_CHUNK):
            pass

    def record(self) -> dict[str, Any]:
        """Return size and hash of what was read."""
        return {"bytes": self.bytes, "sha256": self._digest.hexdigest()}


def _decompressed(path: Path, raw: Any) -> AbstractContextManager[Any]:
    """Return a context with the decompressed stream; `raw` stays open after it."""
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if path.suffix == ".xz":
        return lzma.LZMAFile(raw)
    return nullcontext(raw)


def _present(folder: Path, name: str) -> Path | None:
    return next((folder / f"{name}{end}" for end in _PACKED if (folder / f"{name}{end}").is_file()), None)


class _Text:
    """A text read in chunks, with the JSON value at its current place."""

    def __init__(self, path: Path, stream: Any) -> None:
        import codecs

        self._path = path
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._json = json.JSONDecoder()
        self._buffer = ""
        self._place = 0
        self._ended = False

    def _more(self) -> bool:
        """Read a chunk; returns whether there was one."""
        if self._ended:
            return False
        try:
            block = self._stream.read(_CHUNK)
            text = self._decoder.decode(block, final=not block)
        except (*DAMAGES, UnicodeDecodeError) as error:
            raise DataError(f"{self._path} is damaged: {error}") from error
        self._ended = not block
        self._buffer, self._place = self._buffer[self._place :] + text, 0
        return True

    def peek(self) -> str:
        """Return the next character that is no blank, "" at the end."""
        while True:
            while self._place < len(self._buffer) and self._buffer[self._place] in _BLANKS:
                self._place += 1
            if self._place < len(self._buffer):
                return self._buffer[self._place]
            if not self._more():
                return ""

    def skip(self, character: str) -> None:
        """Step over a character that must come next."""
        found = self.peek()
        if found != character:
            raise DataError(f"{self._path} is not in the official format: expected {character!r}, found {found!r}")
        self._place += 1

    def value(self) -> tuple[Any, str]:
        """Return the next JSON value and its text."""
        self.peek()
        while True:
            try:
                found, end = self._json.raw_decode(self._buffer, self._place)
            except RecursionError as error:
                raise DataError(f"{self._path} nests JSON values too deeply") from error
            except ValueError as error:
                if len(self._buffer) - self._place < _LONGEST and self._more():
                    continue
                raise DataError(f"{self._path} is no JSON: {error}") from error
            text = self._buffer[self._place : end]
            self._place = end
            return found, text


def _items(text: _Text) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a JSON array."""
    text.skip("[")
    while text.peek() != "]":
        found, _ = text.value()
        if not isinstance(found, dict):
            raise DataError(f"expected a list of objects, found {type(found).__name__} in it")
        yield found
        if text.peek() == ",":
            text.skip(",")


def _pairs(text: _Text) -> Iterator[tuple[str, str]]:
    """Yield key and text of the value of each entry of a JSON object."""
    text.skip("{")
    while text.peek() != "}":
        key, _ = text.value()
        text.skip(":")
        _, value = text.value()
        yield str(key), value
        if text.peek() == ",":
            text.skip(",")

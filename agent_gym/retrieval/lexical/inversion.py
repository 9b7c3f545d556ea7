"""Building the inverted index of `postings` from any number of documents, in bounded memory.

Documents are inverted in chunks that are kept on disk, and the chunks are brought into the order of terms at the
end, straight into the mapped files. What stays in memory is the vocabulary and the documents' ids. An index is
written into a temporary folder that takes its name when it is complete, so an interruption leaves no half index.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from agent_gym.retrieval.lexical.analyzer import Analyzer
from agent_gym.retrieval.lexical.postings import ARRAYS, KIND, MANIFEST, VERSION, Postings, read_postings
from agent_gym.retrieval.lexical.similarity import Array, encoded_length
from agent_gym.support.errors import DataError

CHUNK = 20_000
"""Documents that are inverted at once."""
_TABLE = 1 << 24


def build_postings(
    documents: Iterable[tuple[str, str]], analyzer: Analyzer, folder: str | Path | None = None
) -> Postings:
    """Invert documents.

    Args:
        documents: Pairs of a unique id and a text, in the order that numbers the documents.
        analyzer: Turns texts into terms.
        folder: Where the index is written; it must not exist yet. None keeps it in memory.

    Returns:
        The index, memory-mapped when a folder is given.

    Raises:
        DataError: The folder exists, two documents share an id, or there is no document.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="agent-gym-index-") as scratch:
            _write(documents, analyzer, Path(scratch))
            mapped = read_postings(scratch)
            copies: dict[str, Any] = {name: np.array(getattr(mapped, name)) for name in ARRAYS}
            return replace(mapped, **copies)
    folder = Path(folder)
    if folder.exists():
        raise DataError(f"{folder} exists already; give a new folder for the search index or remove it first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        partial.chmod(0o755)
        _write(documents, analyzer, partial)
        os.replace(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return read_postings(folder)


class _Vocabulary(dict[str, int]):
    """Term numbers by word as it stands in a text, in the order of first use; -1 for words without a term."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer
        self.numbers: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = self.analyzer.term(word)
        number = -1 if term is None else self.numbers.setdefault(term, len(self.numbers))
        self[word] = number
        return number


@dataclass(frozen=True)
class _Chunk:
    """The postings of some consecutive documents, sorted by term, then by document."""

    terms: Array
    docs: Array
    pairs: Array

    def save(self, path: Path) -> None:
        with path.open("wb") as stream:
            for array in (self.terms, self.docs, self.pairs):
                np.save(stream, array)

    @staticmethod
    def load(path: Path) -> _Chunk:
        with path.open("rb") as stream:
            return _Chunk(*(np.load(stream) for _ in range(3)))


class _Pairs:
    """Numbers of the distinct (occurrences, encoded length), in the order of first use."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def encode(self, occurrences: Array, lengths: Array) -> Array:
        """Return the number of each pair, uint32 [P]."""
        cells = occurrences.astype(np.int64) * (int(lengths.max(initial=0)) + 1) + lengths
        if int(cells.max(initial=0)) < _TABLE:  # a table takes the place of sorting millions of pairs
            used = np.flatnonzero(np.bincount(cells))
            table = np.zeros(int(cells.max(initial=0)) + 1, dtype=np.uint32)
            table[used] = self._number(used, int(lengths.max(initial=0)) + 1)
            return table[cells]
        used, where = np.unique(cells, return_inverse=True)
        return self._number(used, int(lengths.max(initial=0)) + 1)[where]

    def _number(self, cells: Array, width: int) -> Array:
        keys = ((cell // width << 32) + cell % width for cell in cells.tolist())
        return np.array([self.numbers.setdefault(key, len(self.numbers)) for key in keys], dtype=np.uint32)

    def values(self) -> Array:
        keys = np.fromiter(self.numbers, dtype=np.int64, count=len(self.numbers))
        return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.uint32)


def _write(documents: Iterable[tuple[str, str]], analyzer: Analyzer, folder: Path) -> None:
    vocabulary, pairs, digest = _Vocabulary(analyzer), _Pairs(), hashlib.sha256(analyzer.name.encode())
    ids: list[bytes] = []
    files: list[Path] = []
    tokens = filled = 0
    for batch in _batched(documents):
        lists = [list(map(vocabulary.__getitem__, analyzer.words(text))) for _, text in batch]
        for (id, text), _ in zip(batch, lists, strict=True):
            ids.append(id.encode("utf-8"))
            digest.update(ids[-1] + b"\0" + text.encode("utf-8", "replace") + b"\0")
        counts = np.array([len(one) for one in lists], dtype=np.int64)
        words = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(counts.sum()))
        first = len(ids) - len(batch)
        owners = np.repeat(np.arange(len(batch), dtype=np.int64), counts)
        owners, words = owners[words >= 0], words[words >= 0]
        lengths = np.bincount(owners, minlength=len(batch))
        tokens += int(lengths.sum())
        filled += int(np.count_nonzero(lengths))
        encoded = np.array([encoded_length(length) for length in lengths.tolist()], dtype=np.int64)
        keys, occurrences = np.unique(words << 32 | owners, return_counts=True)
        docs = keys & 0xFFFFFFFF
        chunk = _Chunk(
            (keys >> 32).astype(np.uint32),
            (docs + first).astype(np.uint32),
            pairs.encode(occurrences, encoded[docs]),
        )
        files.append(folder / f"chunk{len(files)}")
        chunk.save(files[-1])
    if not ids:
        raise DataError("a search index needs at least one document, got none")
    _write_ids(folder, ids)
    pair_values = pairs.values()
    np.save(folder / "pair_values.npy", pair_values)
    _merge(folder, files, list(vocabulary.numbers), len(pair_values))
    manifest = {
        "kind": KIND,
        "version": VERSION,
        "analyzer": analyzer.name,
        "documents": len(ids),
        "filled": filled,
        "tokens": tokens,
        "terms": len(vocabulary.numbers),
        "fingerprint": digest.hexdigest(),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


def _batched(documents: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    for document in documents:
        batch.append(document)
        if len(batch) == CHUNK:
            yield batch
            batch = []
    if batch:
        yield batch


def _write_ids(folder: Path, ids: list[bytes]) -> None:
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for before, after in pairwise(order):
        if ids[before] == ids[after]:
            raise DataError(
                f"documents {before} and {after} share the id {ids[before].decode()!r}; ids must be unique"
            )
    ranks = np.empty(len(ids), dtype=np.uint32)
    ranks[order] = np.arange(len(ids), dtype=np.uint32)
    np.save(folder / "id_ranks.npy", ranks)
    _write_strings(folder, "ids", "id_starts", ids)


def _write_strings(folder: Path, name: str, starts: str, strings: list[bytes]) -> None:
    np.save(folder / f"{name}.npy", np.frombuffer(b"".join(strings), dtype=np.uint8))
    np.save(
        folder / f"{starts}.npy",
        np.concatenate([[0], np.cumsum([len(string) for string in strings], dtype=np.int64)]),
    )


def _merge(folder: Path, files: list[Path], terms: list[str], pairs_known: int) -> None:
    """Bring the chunks into the order of sorted terms, and remove them."""
    encoded = [term.encode("utf-8", "replace") for term in terms]
    order = np.array(sorted(range(len(terms)), key=encoded.__getitem__), dtype=np.int64)
    places = np.empty(len(terms), dtype=np.int64)
    places[order] = np.arange(len(terms))
    _write_strings(folder, "terms", "term_starts", [encoded[number] for number in order.tolist()])
    frequencies = np.zeros(len(terms), dtype=np.int64)
    for file in files:
        frequencies += np.bincount(_Chunk.load(file).terms, minlength=len(terms))
    starts = np.concatenate([[0], np.cumsum(frequencies[order])])
    np.save(folder / "starts.npy", starts)

    total = int(starts[-1])
    pair_type = np.uint16 if pairs_known <= 1 << 16 else np.uint32
    docs = np.lib.format.open_memmap(folder / "docs.npy", "w+", np.uint32, (total,))
    pairs = np.lib.format.open_memmap(folder / "pairs.npy", "w+", pair_type, (total,))
    place = starts[:-1].copy()
    for file in files:
        chunk = _Chunk.load(file)
        if len(chunk.terms):
            heads = np.flatnonzero(np.diff(chunk.terms, prepend=chunk.terms[0] + 1))
            numbers = places[chunk.terms[heads]]
            counts = np.diff(heads, append=len(chunk.terms))
            targets = np.repeat(place[numbers] - heads, counts) + np.arange(len(chunk.terms))
            docs[targets] = chunk.docs
            pairs[targets] = chunk.pairs
            place[numbers] += counts
        file.unlink()

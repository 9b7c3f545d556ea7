"""The inverted index behind exact Lucene scoring: plain arrays in a folder, memory-mapped and shared.

A posting is a document number and a pair number; a pair is (occurrences of the term, length of the document in
Lucene's one-byte form), the two values that BM25 takes from a document. There are a few thousand distinct pairs
even among a hundred million postings, so a query term is scored once per pair, and a posting costs six bytes.

    manifest.json          kind, version, analyzer, counts, fingerprint
    docs.npy, pairs.npy    per posting, in the order of terms, then of documents
    starts.npy             per term, where its postings begin (one entry more than terms)
    terms.npy, term_starts.npy      the terms as UTF-8, sorted, and where each begins
    ids.npy, id_starts.npy          the document ids as UTF-8, and where each begins
    id_ranks.npy           per document, the place of its id among the sorted ids: ties are broken by it
    pair_values.npy        per pair, (occurrences, length)
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from agent_gym.retrieval.lexical.similarity import Array
from agent_gym.support.errors import DataError

KIND = "agent-gym lucene index"
VERSION = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Postings:
    """The arrays of an index, in memory or mapped from files.

    Attributes:
        docs: Document number per posting, uint32 [P].
        pairs: Pair number per posting, uint16 or uint32 [P].
        starts: First posting per term, int64 [T + 1].
        terms: Sorted terms, UTF-8 bytes, uint8.
        term_starts: First byte per term, int64 [T + 1].
        ids: Document ids in document order, UTF-8 bytes, uint8.
        id_starts: First byte per id, int64 [N + 1].
        id_ranks: Place of each document's id in byte order, uint32 [N].
        pair_values: Occurrences and encoded length per pair, uint32 [V, 2].
        tokens: Indexed words of all documents, repetitions counted.
        filled: Documents with at least one indexed word.
        analyzer: Name of the analyzer that built it.
        fingerprint: Digest of ids and indexed words, equal for equal collections.
    """

    docs: Array
    pairs: Array
    starts: Array
    terms: Array
    term_starts: Array
    ids: Array
    id_starts: Array
    id_ranks: Array
    pair_values: Array
    tokens: int
    filled: int
    analyzer: str
    fingerprint: str

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.id_ranks)

    def id(self, doc: int) -> str:
        """Return the id of a document."""
        return self.ids[self.id_starts[doc] : self.id_starts[doc + 1]].tobytes().decode("utf-8")

    def find(self, term: str) -> int:
        """Return the number of a term, -1 when no document has it."""
        wanted = term.encode("utf-8", "replace")
        number = bisect_left(range(len(self.starts) - 1), wanted, key=self._term)
        return number if number < len(self.starts) - 1 and self._term(number) == wanted else -1

    def _term(self, number: int) -> bytes:
        return self.terms[self.term_starts[number] : self.term_starts[number + 1]].tobytes()


ARRAYS = tuple(field.name for field in fields(Postings) if field.type == "Array")
"""The arrays of an index, each a file."""


def read_postings(folder: str | Path) -> Postings:
    """Memory-map an index.

    Raises:
        DataError: The folder holds no index, one of another version, or a damaged one.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"no search index at {folder}: it has no {MANIFEST}. Build it again.")
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, f"{MANIFEST}: {error}") from error
    if not isinstance(manifest, dict):
        raise _damaged(folder, f"{MANIFEST} is no object")
    if manifest.get("kind") != KIND or manifest.get("version") != VERSION:
        raise DataError(
            f"{folder} holds {manifest.get('kind')!r} version {manifest.get('version')!r}, expected {KIND!r} "
            f"version {VERSION}. Build it again with this version of agent-gym."
        )
    arrays: dict[str, Array] = {}
    for name in ARRAYS:
        try:
            # A plain view: numpy's memmap class costs on every slice.
            arrays[name] = np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray)
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(folder, str(error)) from error
    _check_sizes(folder, arrays)
    numbers, names = ("tokens", "filled"), ("analyzer", "fingerprint")
    for key, kind in (*[(key, int) for key in numbers], *[(key, str) for key in names]):
        if not isinstance(manifest.get(key), kind):
            raise _damaged(folder, f"{MANIFEST} has {key}={manifest.get(key)!r}, expected {kind.__name__}")
    content: dict[str, Any] = {**arrays, **{key: manifest[key] for key in (*numbers, *names)}}
    return Postings(**content)


def _check_sizes(folder: Path, arrays: dict[str, Array]) -> None:
    """Raise DataError unless the arrays fit one another, so that no search reads beyond the end of one."""
    for name, array in arrays.items():
        shape = (None, 2) if name == "pair_values" else (None,)
        if array.dtype.kind not in "iu" or len(array.shape) != len(shape) or array.shape[1:] != shape[1:]:
            raise _damaged(folder, f"{name}.npy has the shape {array.shape} and the type {array.dtype}")
    sizes = {name: len(array) for name, array in arrays.items()}
    for name, starts in (("docs", "starts"), ("pairs", "starts"), ("terms", "term_starts"), ("ids", "id_starts")):
        end = int(arrays[starts][-1]) if sizes[starts] else 0
        if sizes[name] != end:
            raise _damaged(folder, f"{name}.npy has {sizes[name]:,} entries, expected {end:,}")
    for name, other in (("term_starts", sizes["starts"]), ("id_starts", sizes["id_ranks"] + 1)):
        if sizes[name] != other:
            raise _damaged(folder, f"{name}.npy has {sizes[name]:,} entries, expected {other:,}")


def _damaged(folder: Path, what: str) -> DataError:
    return DataError(f"the search index at {folder} is damaged ({what}). Build it again.")

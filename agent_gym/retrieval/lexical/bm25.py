"""Lexical search: BM25 (k1 = 1.2, b = 0.75) by tantivy, on disk or in memory.

A passage's score is the sum of the scores of its title and of its text.

Equal corpora give equal rankings on every machine and after every rebuild: scores are rounded to four decimals,
below which the order of summation shows, and equal scores keep the order of the corpus.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_gym.retrieval.base import Hit, Passage, Retriever, check_k
from agent_gym.retrieval.lexical.words import ANALYZER, make_analyzer, query_words
from agent_gym.retrieval.store import FilePassages, MemoryPassages, PassageStore, encode_row
from agent_gym.support.errors import DataError

TITLE, TEXT, DOC = "title", "text", "doc"
INDEX_FOLDER = "bm25"
DECIMALS = 4
_SPARE = 8  # hits fetched beyond k, so that ties at the border are seen
_GROWTH = 8
_HEAP_BYTES = 96_000_000


def ranking_name() -> str:
    """Return what makes two BM25 rankings of one corpus equal, as part of fingerprints."""
    return f"bm25/title+text/{ANALYZER}"


class Bm25Retriever(Retriever):
    """BM25 over titles and texts; a folder written by `build_index`.

    Args:
        folder: The index.
        fingerprint: Its fingerprint, from the manifest.

    Raises:
        DataError: The folder holds no complete index.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._store: PassageStore = FilePassages(folder)
        self._index = _Searchable(lambda: open_tantivy(folder / INDEX_FOLDER))
        if self._index.size() != len(self._store):
            raise DataError(
                f"the index in {folder} has {self._index.size()} entries for {len(self._store)} passages. "
                "Build it again."
            )

    @property
    def size(self) -> int:
        """Number of passages."""
        return len(self._store)

    @property
    def fingerprint(self) -> str:
        """Digest of the passages and of the ranking rules."""
        return self._fingerprint

    @property
    def store(self) -> PassageStore:
        """The passages in corpus order."""
        return self._store

    def passage(self, id: str) -> Passage:
        """Return a passage; raises UnknownPassageError."""
        return self._store[self._store.find(id)]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best hits of every query; see `Retriever.search_many`."""
        check_k(k)
        return [
            [Hit(doc, self._store[doc].id, score) for doc, score in self._index.search(query, k)]
            for query in queries
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        from agent_gym.retrieval.opening import open_index

        return open_index, (str(self.folder),)


class MemoryBm25(Bm25Retriever):
    """BM25 over passages held in memory, for corpora of up to some ten thousand passages.

    Rankings are those of an index on disk. Pickling sends the passages.

    Args:
        passages: The corpus; ids must be unique.

    Raises:
        DataError: Two passages have one id.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        store = MemoryPassages(list(passages))
        content = sha256()
        for passage in store:
            content.update(encode_row(passage))
        index = create_tantivy(None)
        add_passages(index, store, 0)
        index.reload()
        self._store = store
        self._fingerprint = fingerprint_of(content.hexdigest(), ranking_name())
        self._index = _Searchable(lambda: index)

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryBm25, ([self._store[doc] for doc in range(self.size)],)


def _rounded(hit: tuple[float, Any]) -> float:
    return round(hit[0], DECIMALS)


class _Searchable:
    """One process's view of a tantivy index; forked children get their own from `opener`."""

    def __init__(self, opener: Any) -> None:
        self._opener = opener
        self._open()

    def _open(self) -> None:
        index = self._opener()
        self._schema = index.schema
        self._searcher = index.searcher()
        self._process = os.getpid()

    def size(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return (doc, score) of the best k, ties in corpus order."""
        if os.getpid() != self._process:
            self._open()
        words = query_words(query)
        if not words:
            return []
        parsed, searcher = self._any_of(words), self._searcher
        limit = min(k + _SPARE, max(self.size(), 1))
        while True:
            hits = searcher.search(parsed, limit, count=False).hits
            if len(hits) < limit or limit >= self.size() or _rounded(hits[-1]) < _rounded(hits[k - 1]):
                break
            limit = min(_GROWTH * limit, self.size())  # more passages tie at the border than were fetched
        if not hits:
            return []
        docs = searcher.fast_field_values(DOC, [address for _, address in hits])
        # Thousands of passages may tie at the border: only their places are put in order.
        border = _rounded(hits[min(k, len(hits)) - 1])
        begin = bisect_left(hits, -border, key=lambda hit: -_rounded(hit))
        end = bisect_right(hits, -border, key=lambda hit: -_rounded(hit))
        ranked = sorted((-_rounded(hit), doc) for hit, doc in zip(hits[:begin], docs, strict=False))
        ranked += [(-border, doc) for doc in sorted(docs[begin:end])]
        return [(int(doc), -score) for score, doc in ranked[:k]]

    def _any_of(self, words: list[tuple[str, int]]) -> Any:
        from tantivy import Occur, Query

        clauses = []
        for word, count in words:
            for field in (TITLE, TEXT):
                clause = Query.term_query(self._schema, field, word, "freq")
                clauses.append((Occur.Should, clause if count == 1 else Query.boost_query(clause, float(count))))
        return Query.boolean_query(clauses)


def fingerprint_of(content: str, ranking: str) -> str:
    """Return the fingerprint of a corpus digest and the name of a ranking."""
    return sha256(f"{content} {ranking}".encode()).hexdigest()[:32]


def create_tantivy(folder: Path | None) -> Any:
    """Return a new tantivy index, in memory when there is no folder; an existing one is opened."""
    from tantivy import Index, SchemaBuilder

    builder = SchemaBuilder().add_unsigned_field(DOC, fast=True)
    for field in (TITLE, TEXT):
        builder = builder.add_text_field(field, tokenizer_name=ANALYZER, index_option="freq")
    schema = builder.build()
    index = Index(schema) if folder is None else Index(schema, path=str(folder))
    return _configured(index)


def open_tantivy(folder: Path) -> Any:
    """Return the tantivy index of a folder; raises DataError when there is none of this version."""
    from tantivy import Index

    try:
        return _configured(Index.open(str(folder)))
    except (ValueError, OSError) as error:
        raise DataError(f"no search index in {folder}: {error}. Build it again.") from error


def _configured(index: Any) -> Any:
    index.register_tokenizer(ANALYZER, make_analyzer())
    index.config_reader("manual")  # no thread that watches the folder: a built index does not change
    return index


def add_passages(index: Any, store: PassageStore, start: int, stop: int | None = None) -> None:
    """Index passages `start` to `stop` with one writer thread and commit them.

    Passages enter in corpus order and a commit is atomic, so the number of entries of an index tells where an
    interrupted build goes on.
    """
    from tantivy import Document

    writer, schema = index.writer(_HEAP_BYTES, 1), index.schema
    for doc in range(start, len(store) if stop is None else stop):
        passage = store[doc]
        fields = {TITLE: passage.title, TEXT: passage.text, DOC: doc}
        writer.add_document(Document.from_dict(fields, schema))
    writer.commit()
    writer.wait_merging_threads()


def remove_leftovers(index: Any) -> None:
    """Delete files of segments that were merged into others."""
    writer = index.writer(_HEAP_BYTES, 1)
    writer.garbage_collect_files()
    writer.wait_merging_threads()
    index.reload()

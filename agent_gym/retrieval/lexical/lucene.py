"""Exact Lucene ranking without Java: the same documents in the same order as Anserini's BM25.

The postings of all query terms are added up in one pass over plain arrays, a few nanoseconds each, so that the best
50 of a million products take about ten milliseconds. Leaving documents out by upper bounds (MaxScore) was measured
and saved nothing: what it skips costs less than finding out that it may be skipped. Every returned score is the sum
that Lucene computes, and ties are broken by id, as Anserini does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agent_gym.retrieval.base import Hit, check_k
from agent_gym.retrieval.lexical.analyzer import Analyzer, EnglishAnalyzer
from agent_gym.retrieval.lexical.inversion import build_postings
from agent_gym.retrieval.lexical.postings import Postings, read_postings
from agent_gym.retrieval.lexical.similarity import Array, saturations, term_scores, term_weight
from agent_gym.support.errors import DataError

_BLOCK = 256
_SLACK = 1e-6
_LEAST, _MOST = 1 << 16, 1 << 21
"""Postings that the working arrays of a thread hold; longer queries are added up in parts."""


class LuceneIndex:
    """A collection of documents searched as Anserini searches it (BM25, k1 0.9, b 0.4, English analysis).

    Searching is thread-safe. Copies share the index; pickling sends its folder, not its content, unless it lies
    in memory only.

    Args:
        postings: The inverted index.
        folder: Where it lies, None for memory.
        analyzer: Must be the one that built it.

    Raises:
        DataError: The index was built by another analyzer.
    """

    def __init__(
        self, postings: Postings, folder: str | Path | None = None, analyzer: Analyzer | None = None
    ) -> None:
        self.analyzer = EnglishAnalyzer() if analyzer is None else analyzer
        if postings.analyzer != self.analyzer.name:
            raise DataError(
                f"the index was built by the analyzer {postings.analyzer!r} and cannot be searched with "
                f"{self.analyzer.name!r}; build it again"
            )
        self._postings = postings
        self._folder = None if folder is None else str(Path(folder).absolute())
        self._saturations = saturations(postings.pair_values, postings.tokens, postings.filled)
        self._scratch = threading.local()

    @classmethod
    def build(
        cls,
        documents: Iterable[tuple[str, str]],
        folder: str | Path | None = None,
        analyzer: Analyzer | None = None,
    ) -> LuceneIndex:
        """Index documents, in memory or in a new folder.

        Args:
            documents: Pairs of a unique id and a text.
            folder: Where the index is written; it must not exist yet. None keeps it in memory.
            analyzer: Turns texts into terms; `EnglishAnalyzer` if None.

        Raises:
            DataError: The folder exists, two documents share an id, or there is no document.
        """
        analyzer = EnglishAnalyzer() if analyzer is None else analyzer
        return cls(build_postings(documents, analyzer, folder), folder, analyzer)

    @classmethod
    def open(cls, folder: str | Path, analyzer: Analyzer | None = None) -> LuceneIndex:
        """Memory-map an index.

        Raises:
            DataError: The folder holds no index of this version, or one that another analyzer built.
        """
        return cls(read_postings(folder), folder, analyzer)

    @property
    def size(self) -> int:
        """Number of documents."""
        return self._postings.size

    @property
    def fingerprint(self) -> str:
        """Digest of the ids and texts, equal for equal collections."""
        return self._postings.fingerprint

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` documents, best first; fewer when fewer match.

        Raises:
            ConfigError: `k` is below 1.
        """
        docs, scores = self.rank(query, k)
        return [
            Hit(doc, self._postings.id(doc), score)
            for doc, score in zip(docs.tolist(), scores.tolist(), strict=True)
        ]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best `k` documents of every query; raises as `search` does."""
        return [self.search(query, k) for query in queries]

    def rank(self, query: str, k: int) -> tuple[Array, Array]:
        """Return the best documents as numbers, best first, and their scores.

        Returns:
            Document numbers int64 [n] and scores float32 [n], n at most `k`.

        Raises:
            ConfigError: `k` is below 1.
        """
        check_k(k)
        terms = self._query_terms(query)
        if not terms:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        totals = self._add_up(terms)
        # Scores are compared in single precision, so what is equal there must not be left out.
        floor = _at_least(totals, k) * (1 - _SLACK)
        candidates = np.flatnonzero(totals >= floor) if floor > 0 else np.flatnonzero(totals)
        scores = totals[candidates].astype(np.float32)
        order = np.lexsort((self._postings.id_ranks[candidates], -scores))[:k]
        return candidates[order], scores[order]

    def matching(self, query: str) -> int:
        """Return how many postings the query's terms have in all."""
        return sum(term.end - term.start for term in self._query_terms(query))

    def _query_terms(self, query: str) -> list[_Term]:
        """Return the query's indexed terms."""
        postings = self._postings
        terms = []
        for word, boost in Counter(self.analyzer.terms(query)).items():
            number = postings.find(word)
            if number >= 0:
                start, end = int(postings.starts[number]), int(postings.starts[number + 1])
                weight = term_weight(postings.filled, end - start, boost)
                terms.append(_Term(start, end, term_scores(weight, self._saturations).astype(np.float64)))
        return terms

    def _add_up(self, terms: list[_Term]) -> Array:
        """Return the scores of all documents by these terms, float64 [N padded to whole blocks]."""
        docs, pairs = self._postings.docs, self._postings.pairs
        places, scores = self._scratch_arrays(sum(term.end - term.start for term in terms))
        padded = -(-self.size // _BLOCK) * _BLOCK
        totals: Array | None = None
        used = 0
        for term in terms:
            start = term.start
            while start < term.end:
                end = min(term.end, start + len(places) - used)
                part = slice(used, used + end - start)
                places[part] = docs[start:end]
                # "clip" skips the check of bounds: pair numbers are in range by construction.
                np.take(term.scores, pairs[start:end], out=scores[part], mode="clip")
                used, start = part.stop, end
                if used == len(places):
                    found = np.bincount(places, scores, minlength=padded)
                    totals, used = found if totals is None else totals + found, 0
        found = np.bincount(places[:used], scores[:used], minlength=padded)
        return found if totals is None else totals + found

    def _scratch_arrays(self, count: int) -> tuple[Array, Array]:
        """Return this thread's working arrays, numbers of documents and scores, for some or all of the postings."""
        length = min(max(count + 1, _LEAST), _MOST)
        found: tuple[Array, Array] | None = getattr(self._scratch, "arrays", None)
        if found is None or len(found[0]) < length:
            found = self._scratch.arrays = np.empty(length, dtype=np.intp), np.empty(length)
        return found

    def __copy__(self) -> LuceneIndex:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> LuceneIndex:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._folder is not None:
            return LuceneIndex.open, (self._folder, self.analyzer)
        return LuceneIndex, (self._postings, None, self.analyzer)


class _Term(NamedTuple):
    """A query term: its postings, and what it adds to a score per pair, float64 [V]."""

    start: int
    end: int
    scores: Array


def _at_least(totals: Array, k: int) -> float:
    """Return a score that at least k documents have, 0 when that is not known; at most the k-th best.

    The k-th best of the best scores of blocks: cheaper than the k-th best of all, and nearly as high.
    """
    blocks = totals.reshape(-1, _BLOCK).max(axis=1)
    if len(blocks) < k:
        blocks = totals
        if len(blocks) < k:
            return 0.0
    return float(np.partition(blocks, len(blocks) - k)[len(blocks) - k])

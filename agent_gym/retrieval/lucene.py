"""Exact Lucene ranking without Java: the same documents in the same order as Anserini's BM25.

The postings of the terms that can add most are added up for all documents. If the other terms cannot lift an
untouched document into the best k, only the documents that still can get there are looked up in their postings
(the MaxScore idea of Turtle and Flood, 1995), so common words cost little. Nothing is approximated:
every returned score is the sum that Lucene computes, and ties are broken by id, as Anserini does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agent_gym.core.errors import DataError
from agent_gym.retrieval.analyzer import Analyzer, EnglishAnalyzer
from agent_gym.retrieval.base import Hit, check_k
from agent_gym.retrieval.inversion import build_postings
from agent_gym.retrieval.postings import Postings, read_postings
from agent_gym.retrieval.similarity import Array, saturations, term_scores, term_weight

_BLOCK = 256
_SLACK = 1e-6
"""Relative margin of bounds: scores are compared after rounding to single precision."""
_WORTHWHILE = 8
"""Documents are left out where the terms to come have more than one posting per this many documents."""
_LIKELY = 0.45
"""The k-th best score is mostly above this share of the highest that a query could give."""


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
        candidates, totals = self._candidates(terms, k)
        scores = totals.astype(np.float32)
        order = np.lexsort((self._postings.id_ranks[candidates], -scores))[:k]
        return candidates[order], scores[order]

    def matching(self, query: str) -> int:
        """Return how many postings the query's terms have in all."""
        return sum(term.end - term.start for term in self._query_terms(query))

    def _query_terms(self, query: str) -> list[_Term]:
        """Return the query's indexed terms, those that can add most to a score first."""
        postings = self._postings
        terms = []
        for word, boost in Counter(self.analyzer.terms(query)).items():
            number = postings.find(word)
            if number >= 0:
                start, end = int(postings.starts[number]), int(postings.starts[number + 1])
                weight = term_weight(postings.filled, end - start, boost)
                bound = float(term_scores(weight, postings.top_saturations[number]))
                scores = term_scores(weight, self._saturations).astype(np.float64)
                terms.append(_Term(start, end, scores, bound))
        terms.sort(key=lambda term: (-term.bound, term.start))
        return terms

    def _candidates(self, terms: list[_Term], k: int) -> tuple[Array, Array]:
        """Return a superset of the best k documents, ascending, and their scores in double precision."""
        done = self._split(terms)
        totals = self._add_up(terms[:done])
        threshold = _at_least(totals, k)
        remaining = sum(term.bound for term in terms[done:])
        if remaining and remaining >= threshold * (1 - _SLACK):
            totals += self._add_up(terms[done:])
            done, threshold, remaining = len(terms), _at_least(totals, k), 0.0
        floor = threshold * (1 - _SLACK) - remaining
        candidates = np.flatnonzero(totals >= floor) if floor > 0 else np.flatnonzero(totals)
        return self._look_up(terms[done:], candidates, totals[candidates], k)

    def _split(self, terms: list[_Term]) -> int:
        """Return how many terms are added up before documents are left out, all where that would save little."""
        postings = sum(term.end - term.start for term in terms)
        bounds = sum(term.bound for term in terms)
        rest = bounds
        for number, term in enumerate(terms):
            if number and rest <= _LIKELY * bounds:
                return number if postings * _WORTHWHILE > self.size else len(terms)
            rest -= term.bound
            postings -= term.end - term.start
        return len(terms)

    def _add_up(self, terms: list[_Term]) -> Array:
        """Return the scores of all documents by these terms, float64 [N padded to whole blocks]."""
        docs, pairs = self._postings.docs, self._postings.pairs
        count = sum(term.end - term.start for term in terms)
        places, scores = self._scratch_arrays(count)
        at = 0
        for term in terms:
            end = at + term.end - term.start
            places[at:end] = docs[term.start : term.end]
            # "clip" skips the check of bounds: pair numbers are in range by construction.
            np.take(term.scores, pairs[term.start : term.end], out=scores[at:end], mode="clip")
            at = end
        return np.bincount(places[:count], scores[:count], minlength=-(-self.size // _BLOCK) * _BLOCK)

    def _look_up(self, terms: list[_Term], candidates: Array, sums: Array, k: int) -> tuple[Array, Array]:
        """Add what the terms give to some documents, leaving out those that fall behind the best k."""
        docs, pairs = self._postings.docs, self._postings.pairs
        remaining = sum(term.bound for term in terms)
        for term in terms:
            if len(sums) > k:
                threshold = float(np.partition(sums, len(sums) - k)[len(sums) - k])
                kept = sums >= threshold * (1 - _SLACK) - remaining
                candidates, sums = candidates[kept], sums[kept]
            part = docs[term.start : term.end]
            places = np.searchsorted(part, candidates.astype(part.dtype))
            places[places == len(part)] = 0
            found = part[places] == candidates
            sums[found] += term.scores[pairs[term.start : term.end][places[found]]]
            remaining -= term.bound
        return candidates, sums

    def _scratch_arrays(self, count: int) -> tuple[Array, Array]:
        """Return this thread's working arrays for `count` postings: numbers of documents, and scores."""
        found: tuple[Array, Array] | None = getattr(self._scratch, "arrays", None)
        if found is None or len(found[0]) < count:
            length = max(count, min(self.size, 1 << 16))
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


class _Term:
    """A query term: its postings, what it adds per pair, and the most that it can add."""

    __slots__ = ("bound", "end", "scores", "start")

    def __init__(self, start: int, end: int, scores: Array, bound: float) -> None:
        self.start = start
        self.end = end
        self.scores = scores
        self.bound = bound


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

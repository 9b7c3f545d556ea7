"""Several rankings of one corpus in one: reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_gym.retrieval.base import Hit, Passage, Retriever, check_k
from agent_gym.retrieval.lexical.bm25 import fingerprint_of
from agent_gym.support.errors import ConfigError

RANK_OFFSET = 60
"""The paper's constant: a passage at rank r (from 1) of a ranking gains 1 / (60 + r)."""

DEPTH = 50
"""Hits of every ranking that take part, or k if that is more."""


class HybridRetriever(Retriever):
    """The fused ranking of retrievers of one corpus; equal sums keep the order of the corpus.

    Args:
        retrievers: At least two, over the same passages.

    Raises:
        ConfigError: There are fewer than two, or their corpora differ in size.
    """

    def __init__(self, retrievers: Sequence[Retriever]) -> None:
        if len(retrievers) < 2:
            raise ConfigError(f"rank fusion takes at least two retrievers, got {len(retrievers)}")
        sizes = {retriever.size for retriever in retrievers}
        if len(sizes) > 1:
            raise ConfigError(f"rank fusion needs retrievers of one corpus; these have {sorted(sizes)} passages")
        self.retrievers = tuple(retrievers)

    @property
    def size(self) -> int:
        """Number of passages."""
        return self.retrievers[0].size

    @property
    def fingerprint(self) -> str:
        """Digest of the fingerprints of the parts."""
        return fingerprint_of(" ".join(part.fingerprint for part in self.retrievers), f"rrf/{RANK_OFFSET}/{DEPTH}")

    def passage(self, id: str) -> Passage:
        """Return a passage; raises UnknownPassageError."""
        return self.retrievers[0].passage(id)

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best hits of every query; see `Retriever.search_many`."""
        check_k(k)
        depth = max(k, DEPTH)
        rankings = [retriever.search_many(queries, depth) for retriever in self.retrievers]
        return [fuse([ranking[number] for ranking in rankings], k) for number in range(len(queries))]

    def __reduce__(self) -> tuple[Any, ...]:
        return HybridRetriever, (self.retrievers,)


def fuse(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Return the best `k` of the union of rankings, by the sum of 1 / (60 + rank)."""
    gains: dict[str, float] = {}
    hits: dict[str, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            gains[hit.id] = gains.get(hit.id, 0.0) + 1 / (RANK_OFFSET + rank)
            hits.setdefault(hit.id, hit)
    ranked = sorted(gains, key=lambda id: (-round(gains[id], 9), hits[id].doc, id))
    return [Hit(hits[id].doc, id, round(gains[id], 9), hits[id].passage) for id in ranked[:k]]

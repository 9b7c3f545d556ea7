"""BM25 as Lucene computes it, in single precision and with one-byte document lengths.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, in the form of Lucene's
BM25Similarity: a term of weight w = boost * idf adds w - w / (1 + f / (k1 (1 - b + b L / mean L))), where f counts
the term in the document and L is the document's length in a one-byte form. Rounding to single precision happens
where Lucene does it, because it decides between documents of nearly equal score.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

K1 = 0.9
B = 0.4
"""Anserini's parameters."""

_EXACT = 24
"""The smallest length whose one-byte form has a mantissa."""

Array = npt.NDArray[Any]


def encoded_length(length: int) -> int:
    """Return the length that survives Lucene's one-byte norm (SmallFloat.intToByte4 and back).

    Exact up to 40; above, the length less 24 keeps its four most significant bits.
    """
    if length < _EXACT:
        return length
    excess = length - _EXACT
    shift = max(excess.bit_length() - 4, 0)
    return _EXACT + (excess >> shift << shift)


def saturations(pair_values: Array, tokens: int, documents: int) -> Array:
    """Return f / (k1 (1 - b + b L / mean L)) for pairs of occurrences and encoded length.

    Args:
        pair_values: Occurrences and length per pair [V, 2].
        tokens: Indexed words of the collection.
        documents: Documents that have any.

    Returns:
        float32 [V]; grows with what a term adds to the score.
    """
    mean = np.float32(tokens / max(documents, 1))
    k1, b, one = np.float32(K1), np.float32(B), np.float32(1)
    lengths = pair_values[:, 1].astype(np.float32)
    inverse = one / (k1 * ((one - b) + b * lengths / mean))
    return pair_values[:, 0].astype(np.float32) * inverse


def term_weight(documents: int, matching: int, boost: int) -> np.float32:
    """Return boost * ln(1 + (N - n + 0.5) / (n + 0.5)) in single precision.

    Args:
        documents: N, documents with any indexed word.
        matching: n, documents with the term.
        boost: How often the query has the term.
    """
    idf = np.float32(math.log(1 + (documents - matching + 0.5) / (matching + 0.5)))
    return np.float32(boost) * idf


def term_scores(weight: np.float32, saturation: Array) -> Array:
    """Return what a term of a weight adds to the score, float32 of the shape of `saturation`."""
    return weight - weight / (np.float32(1) + saturation)

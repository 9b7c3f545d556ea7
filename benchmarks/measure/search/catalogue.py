"""Product texts of any number for measurements: words as frequent as in a real shop, made of syllables.

How often the words of each frequency rank occur follows the 1,000-product catalogue of WebShop: the commonest
indexed word stands in four of five products, the 100th in one of eight, the 1,000th in one of fifty.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from agent_gym.support.seeding import generator

MEAN_WORDS = 145
"""Indexed words of a product text, on average."""
VOCABULARY = 300_000
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, VOCABULARY)
_SHARES = (0.789, 0.778, 0.473, 0.363, 0.29, 0.193, 0.126, 0.083, 0.041, 0.02, 0.008, 0.003, 2e-5)
"""Share of products that hold the word of each rank; in between, straight on logarithmic scales."""
_FIRST = (*"bcdfghklmnprtvz", "br", "cr", "dr", "gr", "kl", "pl", "st")
_LAST = ("a", "e", "i", "o", "u", "ai", "ea", "oo")
_CLOSE = ("n", "r", "l", "m", "t", "k", "nd", "rt", "lm", "sh")
_CHUNK = 5_000


@lru_cache(maxsize=2)
def words(count: int = VOCABULARY) -> tuple[str, ...]:
    """Return distinct words by frequency rank; the more frequent are the shorter."""
    syllables = [first + last for first in _FIRST for last in _LAST]
    made = []
    for number in range(count):
        rest, parts = number, []
        while True:
            rest, digit = divmod(rest, len(syllables))
            parts.append(syllables[digit])
            if not rest:
                break
            rest -= 1
        made.append("".join(parts) + _CLOSE[number % len(_CLOSE)])
    return tuple(made)


def products(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (id, text) of products; the same for the same count and seed."""
    rng = generator("search benchmark", seed)
    vocabulary = np.array(words(), dtype=object)
    cumulative = _cumulative(len(vocabulary))
    for start in range(0, count, _CHUNK):
        number = min(_CHUNK, count - start)
        lengths = np.maximum(20, rng.lognormal(np.log(MEAN_WORDS) - 0.18, 0.6, number)).astype(np.int64)
        drawn = vocabulary[np.searchsorted(cumulative, rng.random(int(lengths.sum())))]
        ends = np.cumsum(lengths)
        for index, (begin, end) in enumerate(zip(ends - lengths, ends, strict=True)):
            yield f"B{start + index:09d}", " ".join(drawn[begin:end])


def queries(count: int, seed: int = 1, length: int = 11) -> list[str]:
    """Return queries of distinct words that occur together in one product, as shoppers' wishes do."""
    rng = generator("search benchmark queries", seed)
    found = []
    for _, text in products(count, seed):
        distinct = sorted(set(text.split()))
        found.append(" ".join(rng.choice(distinct, size=min(length, len(distinct)), replace=False)))
    return found


def _cumulative(count: int) -> npt.NDArray[np.float64]:
    """Return the cumulative probabilities of the words by rank."""
    ranks = np.arange(1, count + 1)
    shares = np.exp(np.interp(np.log(ranks), np.log(_RANKS), np.log(_SHARES)))
    # A product of n words holds a word of probability p with probability 1 - (1 - p)^n.
    probabilities = -np.expm1(np.log1p(-shares) / MEAN_WORDS)
    return np.cumsum(probabilities / probabilities.sum())

"""Generated passages with the word statistics of an encyclopaedia, and queries for them.

Words are drawn by Zipf's law from a large vocabulary whose most frequent members are English function words, so
that posting lists have realistic lengths and queries lose their function words as real ones do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from agent_gym.retrieval import Passage
from agent_gym.retrieval.lexical.words import STOP_WORDS

WORDS = 400_000
MEAN_LENGTH = 68
_SHIFT = 2.7  # Mandelbrot's constant: flattens the head of the distribution
_CHUNK = 10_000
_ONSETS = (*"bcdfghjklmnprstvwz", "br", "ch", "dr", "gl", "kr", "pl", "st", "th", "tr")
_VOWELS = (*"aeiou", "ai", "ea", "oo")
_CODAS = ("", "n", "r", "s", "l", "t", "nd", "rk")


@cache
def vocabulary(size: int = WORDS) -> tuple[str, ...]:
    """Return distinct words, the most frequent first."""
    words = sorted(STOP_WORDS)
    syllables = [onset + vowel + coda for onset in _ONSETS for vowel in _VOWELS for coda in _CODAS]
    order = np.random.default_rng(7).permutation(len(syllables) ** 2)
    known = set(words)
    for code in order:
        first, second = divmod(int(code), len(syllables))
        word = syllables[first] + syllables[second]
        if word not in known:
            known.add(word)
            words.append(word)
            if len(words) >= size:
                break
    return tuple(words)


def passages(count: int, seed: int = 0) -> Iterator[Passage]:
    """Yield `count` passages; the first ones do not depend on how many follow."""
    words = np.array(vocabulary(), dtype=object)
    weights = 1 / (np.arange(len(words)) + _SHIFT)
    cumulative = np.cumsum(weights / weights.sum())
    for start in range(0, count, _CHUNK):
        random = np.random.default_rng([seed, start])
        lengths = random.integers(MEAN_LENGTH - 28, MEAN_LENGTH + 29, _CHUNK)
        ends = np.cumsum(lengths)
        drawn = words[np.minimum(np.searchsorted(cumulative, random.random(ends[-1])), len(words) - 1)]
        names = words[random.integers(len(STOP_WORDS), len(words), (_CHUNK, 2))]
        for row in range(min(_CHUNK, count - start)):
            text = " ".join(drawn[ends[row] - lengths[row] : ends[row]])
            yield Passage(str(start + row), " ".join(names[row]).title(), text)


def write_corpus(path: Path, count: int) -> None:
    """Write passages as a corpus file in the wiki-18 form."""
    with path.open("w", encoding="utf-8") as stream:
        for passage in passages(count):
            stream.write(json.dumps({"id": passage.id, "contents": passage.contents}) + "\n")


def queries(count: int, corpus_size: int, seed: int = 1) -> list[str]:
    """Return questions of 8 to 16 words, taken from passages of the corpus as they stand there."""
    random = np.random.default_rng(seed)
    known = list(passages(min(corpus_size, 2 * _CHUNK)))
    asked = []
    for number in random.integers(0, len(known), count):
        words = known[number].text.split()
        length = int(random.integers(8, 17))
        start = int(random.integers(0, len(words) - length))
        asked.append(" ".join(words[start : start + length]))
    return asked

"""Made-up names: pronounceable, unique, and never shared between splits.

The stem of a name is a sequence of syllables and stands for a number; the number decides the split that may use
it, so worlds of different splits have no name in common, whatever their seeds.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

_ONSETS = ["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z"]
_VOWELS = ["a", "e", "i", "o", "u"]
SYLLABLES = tuple(onset + vowel for onset in _ONSETS for vowel in _VOWELS)
# Endings that English stemming leaves alone, so that names stay different to a search index.
_CODAS = ("", "n", "k", "m")
_CODA_LETTERS = "nkm"
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX_SHIFT = np.uint64(40)
_SHARES = 100
_ROOMY = 4
"""Stems that a split should have for each name of a world: worlds of one split then differ in most names."""


class GeneratedSplit(StrEnum):
    """Splits of generated worlds."""

    TRAIN = "train"
    VALID = "valid"
    TEST = "test"


_BOUNDS = {GeneratedSplit.TEST: (0, 15), GeneratedSplit.VALID: (15, 30), GeneratedSplit.TRAIN: (30, _SHARES)}
"""Per cent of the stems that belong to each split."""


class NameMaker:
    """Hands out unique names of one split in an order fixed by the generator.

    Args:
        rng: Source of the order.
        split: Whose names.
        count: Names that will be asked for; decides how long they are.
        short: Two syllables if they suffice, no ending, lower case: names for terse worlds.
    """

    def __init__(self, rng: np.random.Generator, split: GeneratedSplit, count: int, *, short: bool) -> None:
        least, bound = _BOUNDS[split]
        self._syllables = 2 if short else 3
        while len(SYLLABLES) ** self._syllables * (bound - least) < count * _SHARES * _ROOMY:
            self._syllables += 1
        self._short = short
        self._stems = _draw(rng, len(SYLLABLES) ** self._syllables, least, bound, count)
        self._codas = rng.integers(len(_CODAS), size=count).tolist()
        self._used: set[str] = set()
        self._next = 0

    def name(self) -> str:
        """Return a name that was not handed out before."""
        stem = _spell(self._stems[self._next], self._syllables)
        name = stem if self._short else (stem + _CODAS[self._codas[self._next]]).capitalize()
        self._next += 1
        self._used.add(name)
        return name

    def like(self, name: str, rng: np.random.Generator) -> str:
        """Return an unused name with the stem of `name` and another ending; a new name where all are taken."""
        stem = name.lower().rstrip(_CODA_LETTERS)
        for place in rng.permutation(len(_CODAS)).tolist():
            found = (stem + _CODAS[place]).capitalize()
            if found not in self._used and not self._short:
                self._used.add(found)
                return found
        return self.name()


def _draw(rng: np.random.Generator, total: int, least: int, bound: int, count: int) -> list[int]:
    """Return `count` distinct stem numbers of the split whose shares are `least` to `bound`."""
    found: dict[int, None] = {}
    while len(found) < count:
        numbers = rng.integers(total, size=4 * count * _SHARES // (bound - least), dtype=np.uint64)
        share = ((numbers * _MIX) >> _MIX_SHIFT) % np.uint64(_SHARES)
        found |= dict.fromkeys(numbers[(share >= least) & (share < bound)].tolist())
    return list(found)[:count]


def _spell(number: int, syllables: int) -> str:
    parts = []
    for _ in range(syllables):
        number, digit = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[digit])
    return "".join(reversed(parts))


def given_names(rng: np.random.Generator, count: int) -> tuple[str, ...]:
    """Return `count` distinct two-syllable given names, which all splits share."""
    picked = rng.permutation(len(SYLLABLES) ** 2)[:count].tolist()
    return tuple((_spell(number, 2) + "m").capitalize() for number in picked)

"""Random draws whose results depend only on the generator's stream of 64-bit words.

NumPy fixes the words that a bit generator yields, but not how the methods of `Generator` use them; rooms
drawn here from one seed stay the same over NumPy versions.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
_BLOCK = 128
_WORD = 64


class Draws:
    """Integers, choices and shuffles from a NumPy generator, taken from it in blocks of words."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._words: list[int] = []

    def word(self) -> int:
        """Return the next word, uniform on `0 <= word < 2**64`."""
        if not self._words:
            self._words = self._rng.integers(0, 1 << _WORD, size=_BLOCK, dtype=np.uint64).tolist()[::-1]
        return self._words.pop()

    def below(self, limit: int) -> int:
        """Return an integer uniform on `0 <= value < limit` (to within `limit / 2**64`)."""
        return self.word() * limit >> _WORD

    def choice(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.below(len(values))]

    def chance(self, percent: int) -> bool:
        """Return True in so many of a hundred draws."""
        return self.below(100) < percent

    def shuffle(self, values: MutableSequence[T]) -> None:
        """Put the values in random order, in place."""
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]

    def sample(self, values: Sequence[T], count: int) -> list[T]:
        """Return `count` of the values at distinct positions, in random order."""
        pool = list(values)
        for index in range(count):
            other = index + self.below(len(pool) - index)
            pool[index], pool[other] = pool[other], pool[index]
        return pool[:count]

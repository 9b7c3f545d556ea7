"""Identifiers of generated products: a row's number, scattered so that neighbours do not look alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SCATTER: Final = 387_420_489  # a power of three, so prime to 10**9 and to every power of 80
_NUMBERS: Final = 10**9
_SYLLABLES: Final = tuple(f"{consonant}{vowel}" for consonant in "BDFGHKLMNPRSTVWZ" for vowel in "AEIOU")
_FEWEST: Final = 2


@dataclass(frozen=True)
class Numbered:
    """Identifiers as long as the official ones: `B` and nine digits."""

    def asin(self, row: int) -> str:
        """Return the identifier of a row."""
        return f"B{(row + 1) * _SCATTER % _NUMBERS:09d}"

    def row(self, asin: str) -> int:
        """Return the row of an identifier."""
        return int(asin[1:]) * pow(_SCATTER, -1, _NUMBERS) % _NUMBERS - 1


@dataclass(frozen=True)
class Syllabic:
    """Identifiers of a few syllables, such as `KOBU`: what very small models can learn to copy.

    Attributes:
        products: Rows that need an identifier; decides how many syllables there are.
    """

    products: int

    @property
    def length(self) -> int:
        """Syllables of an identifier."""
        length = _FEWEST
        while len(_SYLLABLES) ** length <= self.products:  # number 0 belongs to no row
            length += 1
        return length

    def asin(self, row: int) -> str:
        """Return the identifier of a row."""
        base, length = len(_SYLLABLES), self.length
        number = (row + 1) * _SCATTER % base**length
        return "".join(_SYLLABLES[number // base**place % base] for place in reversed(range(length)))

    def row(self, asin: str) -> int:
        """Return the row of an identifier."""
        base = len(_SYLLABLES)
        number, total = 0, 1
        for place in range(0, len(asin), 2):
            number, total = number * base + _SYLLABLES.index(asin[place : place + 2]), total * base
        return number * pow(_SCATTER, -1, total) % total - 1

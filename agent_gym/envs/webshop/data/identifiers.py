"""Identifiers of generated products: a row's number, scattered so that neighbours do not look alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from string import ascii_uppercase, digits
from typing import Final

_SCATTER: Final = 387_420_489  # a power of three, so prime to 10**9 and to every product of 26s and 10s
_NUMBERS: Final = 10**9
_FEWEST: Final = 3


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
class Alternating:
    """Identifiers of letters and digits in turn, such as `K7D`, for very small models.

    A tokenizer that keeps letters and digits apart reads one character a token, so all identifiers of a catalogue
    have equally many tokens, of a small alphabet.

    Attributes:
        products: Rows that need an identifier; decides how long they are.
    """

    products: int

    @cached_property
    def alphabets(self) -> tuple[str, ...]:
        """The characters that each place may have."""
        found: list[str] = []
        while len(found) < _FEWEST or prod(map(len, found)) <= self.products:  # number 0 belongs to no row
            found.append(digits if len(found) % 2 else ascii_uppercase)
        return tuple(found)

    def asin(self, row: int) -> str:
        """Return the identifier of a row."""
        rest = (row + 1) * _SCATTER % prod(map(len, self.alphabets))
        found = ""
        for alphabet in self.alphabets:
            rest, place = divmod(rest, len(alphabet))
            found += alphabet[place]
        return found

    def row(self, asin: str) -> int:
        """Return the row of an identifier."""
        number, weight = 0, 1
        for alphabet, character in zip(self.alphabets, asin, strict=True):
            number += weight * alphabet.index(character)
            weight *= len(alphabet)
        return number * pow(_SCATTER, -1, weight) % weight - 1

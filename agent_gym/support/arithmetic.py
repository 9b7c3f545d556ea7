"""Arithmetic whose last digit is the same on every supported Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add


def added(values: Iterable[float]) -> float:
    """Return the sum of numbers, added one after the other from 0.

    Python's own `sum` corrects rounding since 3.12: there it would give other rewards and weights in the last digit
    than earlier versions, and than the benchmarks' originals, which are of that time.
    """
    return reduce(add, values, 0.0)

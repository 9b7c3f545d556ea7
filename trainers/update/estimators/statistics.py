"""Values against the mean of their group, and what the difference is divided by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainers.settings.algorithm import UNIFORM_FLOOR, Normalisation
from trainers.update.turn_table import Bools, Floats, Ints

EPS = 1e-6
"""Added to every standard deviation, and to the sum of `hgpo`'s weights."""

Divisor = Callable[[Floats], float]
"""From the votes of one group (two or more, not uniform) to a positive number."""


def centre(values: Floats, group: Ints, votes: Bools, divisor: Divisor) -> Floats:
    """Subtract the mean of each group's votes and divide.

    Args:
        values: Shape [R].
        group: Group of each row, shape [R]; negative for rows in no group, which get 0.
        votes: Rows that count in mean, spread and divisor, shape [R].
        divisor: What the differences are divided by.

    Returns:
        Shape [R]. 0 in groups with fewer than two votes or a spread below `UNIFORM_FLOOR`.
    """
    result = np.zeros(len(values))
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order])) + 1
    for members in np.split(order, starts):
        if not len(members) or group[members[0]] < 0:
            continue
        voters = values[members][votes[members]]
        if len(voters) < 2 or np.ptp(voters) < UNIFORM_FLOOR:
            continue
        result[members] = (values[members] - voters.mean()) / divisor(voters)
    return result


def by_nothing(votes: Floats) -> float:
    """Divisor of `dr_grpo` and of `mean` normalisation."""
    return 1.0


def by_std(votes: Floats) -> float:
    """Divisor of `grpo`: unbiased standard deviation plus `EPS`."""
    return float(votes.std(ddof=1)) + EPS


def by_biased_std(votes: Floats) -> float:
    """Divisor of the released `hgpo`: biased standard deviation plus `EPS`."""
    return float(votes.std()) + EPS


def by_others(votes: Floats) -> float:
    """Divisor of `rloo`: turns a distance to the mean of all n into that to the mean of the others."""
    return (len(votes) - 1) / len(votes)


def divisor_of(normalisation: Normalisation, std: Divisor = by_std) -> Divisor:
    """Return the divisor of a normalisation, with `std` where it divides."""
    return std if normalisation is Normalisation.MEAN_STD else by_nothing

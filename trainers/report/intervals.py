"""Intervals of success rates, from the episodes of evaluations.

Episodes of one task are alike, so tasks are the units: with one episode a task the interval of a rate is Wilson's,
with several it is that of the mean over tasks (Wilson's again where all tasks agree). Two evaluations that play the
same tasks are compared task by task.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev

_Z = 1.96  # normal quantile of a two-sided 95 % interval
_FEW_TASKS = 30
_FEW_OTHERS = 10


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval.

    Attributes:
        value: The value.
        low: Lower end.
        high: Upper end.
        n: Tasks behind it.
    """

    value: float
    low: float
    high: float
    n: int


def by_task(outcomes: Iterable[tuple[str, bool]]) -> dict[str, list[bool]]:
    """Return the outcomes of each task, from (task id, success) of every episode."""
    found: dict[str, list[bool]] = defaultdict(list)
    for task, success in outcomes:
        found[task].append(success)
    return dict(found)


def rate(tasks: Mapping[str, Sequence[bool]]) -> Interval | None:
    """Return the mean success over tasks, or None without any."""
    n = len(tasks)
    if not n:
        return None
    means = [fmean(values) for values in tasks.values()]
    value = fmean(means)
    if n == 1 or all(len(values) == 1 for values in tasks.values()) or max(means) == min(means):
        return _wilson(value, n)
    half = _Z * stdev(means) / math.sqrt(n)
    return Interval(value, max(0.0, value - half), min(1.0, value + half), n)


def difference(before: Mapping[str, Sequence[bool]], after: Mapping[str, Sequence[bool]]) -> Interval | None:
    """Return the mean difference over the tasks that both have, or None when there are fewer than two.

    With fewer than 30 tasks, or fewer than 10 whose difference is not the commonest one, the spread of the
    differences says too little (10 of 10 against none of 10 would be certain): two tasks are added, one gained and
    one lost, as Bonett and Price (2012, Journal of Educational and Behavioral Statistics 37, 479-488) do.
    """
    shared = [task for task in before if task in after]
    if len(shared) < 2:
        return None
    steps = [fmean(after[task]) - fmean(before[task]) for task in shared]
    value, n = fmean(steps), len(steps)
    if n < _FEW_TASKS or n - Counter(steps).most_common(1)[0][1] < _FEW_OTHERS:
        padded = [*steps, 1.0, -1.0]
        quantile = _Z + (_Z**3 + _Z) / (4 * (n + 1))  # Student's, to the first order
        centre, half = fmean(padded), quantile * pstdev(padded) / math.sqrt(n + 2)
        return Interval(value, max(-1.0, centre - half), min(1.0, centre + half), n)
    half = _Z * stdev(steps) / math.sqrt(n)
    return Interval(value, value - half, value + half, n)


def _wilson(value: float, n: int) -> Interval:
    centre = (value + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(value * (1 - value) / n + _Z**2 / (4 * n**2))
    low = 0.0 if value == 0 else centre - half
    high = 1.0 if value == 1 else centre + half
    return Interval(value, low, high, n)

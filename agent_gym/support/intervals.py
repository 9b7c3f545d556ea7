"""Intervals of rates, of means and of paired differences.

The unit of resampling is the task: attempts at one task resemble each other, so that 100 tasks played five
times tell less than 500 tasks. Left out on purpose: significance stars. An interval of the difference says more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_gym.support.seeding import generator

RESAMPLES = 10_000
CONFIDENCE = 0.95
_FEW_TASKS = 30
_FEW_OUTCOMES = 10  # outcomes beside the commonest, below which the bootstrap is too narrow
_FEW_VALUES = 16  # distinct values up to which counting them is quicker than drawing each task
_CELLS = 4_000_000  # resampled values held at once


class IntervalMethod(StrEnum):
    """How an interval was found."""

    BOOTSTRAP = "bootstrap"
    """Percentiles of the mean over resampled tasks."""
    WILSON = "wilson"
    """Wilson's score interval with one trial a task, for few tasks and for rates near 0 or 1, where resampling
    sees too little variation (it calls a rate of 20 in 20 certain)."""
    ADJUSTED = "adjusted"
    """Student's interval after adding two tasks, of which each agent alone solves one (Bonett and Price 2012): for
    paired differences of few tasks, or of tasks that nearly all come out alike."""
    NONE = "none"
    """There was nothing to estimate from."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval.

    Attributes:
        value: The mean.
        low: Lower end.
        high: Upper end.
        n: Tasks it rests on.
        method: How the interval was found.
    """

    value: float
    low: float
    high: float
    n: int
    method: IntervalMethod


def rate_interval(task_rates: ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0) -> Interval:
    """Return the mean of per-task success rates with its interval.

    Args:
        task_rates: [T] success rate of each task over its attempts, in [0, 1]; with one attempt, 0 or 1.
        confidence: Coverage of the interval.
        seed: Seed of the resampling; the interval is a function of its arguments.
    """
    rates = vector(task_rates)
    if not rates.size:
        return Interval(0.0, 0.0, 1.0, 0, IntervalMethod.NONE)
    successes = float(rates.sum())
    few = min(successes, rates.size - successes) < _FEW_OUTCOMES
    if rates.size < _FEW_TASKS or few:
        low, high = wilson(successes, rates.size, confidence)
        return Interval(float(rates.mean()), low, high, rates.size, IntervalMethod.WILSON)
    return mean_interval(rates, confidence=confidence, seed=seed)


def mean_interval(values: ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0) -> Interval:
    """Return the mean of per-task values with its bootstrap interval (expanded percentiles).

    Args:
        values: [T] one finite number a task.
        confidence: Coverage of the interval.
        seed: Seed of the resampling.
    """
    sample = vector(values)
    if not sample.size:
        return Interval(0.0, 0.0, 0.0, 0, IntervalMethod.NONE)
    low, high = _percentiles(_bootstrap_means(sample, seed), sample.size, confidence)
    return Interval(float(sample.mean()), low, high, sample.size, IntervalMethod.BOOTSTRAP)


def wilson(successes: float, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Wilson's score interval of a binomial rate (Wilson 1927).

    Raises:
        ValueError: There are no trials.
    """
    if trials < 1:
        raise ValueError(f"an interval needs at least one trial, got {trials}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    spread = z * float(np.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)))
    scale = 1 + z * z / trials
    low = 0.0 if rate == 0 else (centre - spread) / scale
    high = 1.0 if rate == 1 else (centre + spread) / scale
    return max(0.0, low), min(1.0, high)


def paired_difference(
    first: ArrayLike, second: ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Return the mean of `first - second` over tasks with its interval over tasks.

    Pairing takes the difficulty of the tasks out of the comparison. Resampling tasks calls a difference of 10 in 10
    certain. With fewer than 30 tasks, or fewer than 10 whose difference is not the commonest one, the interval is
    that of Bonett and Price (2012, Journal of Educational and Behavioral Statistics 37, 479-488), with Student's
    quantile for the normal one: two tasks are added, of which each agent alone solves one, and the mean
    and the variance are those of all. Over a grid of true differences it holds the truth in no less than 94 % of
    cases with 10, 20 or 50 tasks, where Newcombe's hybrid score interval (1998, method 10) falls to 91 %.

    Values outside [0, 1] (returns) are resampled however few they are; their interval is then too narrow.

    Args:
        first: [T] value of each task for one agent, in [0, 1] for successes and scores.
        second: [T] value of the same tasks, in the same order, for the other.
        confidence: Coverage of the interval.
        seed: Seed of the resampling.

    Raises:
        ValueError: The lengths differ.
    """
    a, b = vector(first), vector(second)
    if a.size != b.size:
        raise ValueError(f"paired values must be as many on both sides, got {a.size} and {b.size}")
    steps = a - b
    if steps.size and np.abs(steps).max() <= 1.0 and _few_steps(steps):
        low, high = _adjusted(steps, confidence)
        return Interval(float(steps.mean()), low, high, steps.size, IntervalMethod.ADJUSTED)
    return mean_interval(steps, confidence=confidence, seed=seed)


def _few_steps(steps: NDArray[np.float64]) -> bool:
    """Return whether there are few tasks, or few whose difference is not the commonest."""
    commonest = np.unique(steps, return_counts=True)[1].max()
    return bool(steps.size < _FEW_TASKS or steps.size - commonest < _FEW_OUTCOMES)


def _adjusted(steps: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Return Bonett and Price's interval of differences in [-1, 1]."""
    padded = np.append(steps, (1.0, -1.0))
    centre = float(padded.mean())
    spread = _student(0.5 + confidence / 2, padded.size - 1) * float(padded.std()) / padded.size**0.5
    return max(-1.0, centre - spread), min(1.0, centre + spread)


def vector(values: ArrayLike) -> NDArray[np.float64]:
    """Return values as numbers, [T].

    Raises:
        ValueError: They are not one finite number a task.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"expected one number a task, got an array of shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError("expected finite numbers only")
    return vector


def _bootstrap_means(sample: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    rng = generator("bootstrap", seed)
    size = sample.size
    values, counts = np.unique(sample, return_counts=True)
    if values.size <= _FEW_VALUES:  # how often each value is drawn is multinomial
        return rng.multinomial(size, counts / size, RESAMPLES) @ values / size
    means = np.empty(RESAMPLES)
    rows = max(1, _CELLS // size)
    for start in range(0, RESAMPLES, rows):
        count = min(rows, RESAMPLES - start)
        means[start : start + count] = sample[rng.integers(size, size=(count, size))].mean(axis=1)
    return means


def _percentiles(means: NDArray[np.float64], size: int, confidence: float) -> tuple[float, float]:
    """Return the expanded percentiles of Hesterberg 2015 (arXiv 1411.5279): plain ones are as much too narrow as
    a normal interval with the population formula of the variance is beside Student's."""
    tail = (1 - confidence) / 2
    if size > 1:
        tail = NormalDist().cdf(-_student(1 - tail, size - 1) * (size / (size - 1)) ** 0.5)
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _student(share: float, freedom: int) -> float:
    """Return a quantile of Student's distribution, by the first terms of its expansion about the normal one."""
    z = NormalDist().inv_cdf(share)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

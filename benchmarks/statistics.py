"""Intervals of rates, pass@k and paired differences.

The unit of resampling is the task: attempts at one task resemble each other, so that 100 tasks played five
times tell less than 500 tasks. Left out on purpose: significance stars. An interval of the difference says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_gym.core.seeding import generator

RESAMPLES = 10_000
CONFIDENCE = 0.95
_FEW_TASKS = 30
_FEW_OUTCOMES = 10  # successes or failures below which the bootstrap of a rate is too narrow
_FEW_VALUES = 16  # distinct values up to which counting them is quicker than drawing each task
_CELLS = 4_000_000  # resampled values held at once


class IntervalMethod(StrEnum):
    """How an interval was found."""

    BOOTSTRAP = "bootstrap"
    """Percentiles of the mean over resampled tasks."""
    WILSON = "wilson"
    """Wilson's score interval with one trial a task, for few tasks and for rates near 0 or 1, where resampling
    sees too little variation (it calls a rate of 20 in 20 certain)."""
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
    rates = _vector(task_rates)
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
    sample = _vector(values)
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
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def pass_at_k(successes: Sequence[int], attempts: Sequence[int], k: int) -> float | None:
    """Return the chance that at least one of k attempts at a task succeeds, averaged over tasks.

    The unbiased estimator 1 - C(n - c, k) / C(n, k) of Chen et al. 2021 (arXiv 2107.03374), equation 1. Tasks
    with fewer than k attempts are left out.

    Args:
        successes: [T] successful attempts c of each task.
        attempts: [T] valid attempts n of each task.
        k: Attempts drawn, at least 1.

    Returns:
        The estimate, or None when no task has k attempts.
    """
    won, tried = _enough(successes, attempts, k)
    if not tried.size:
        return None
    return float(np.mean(1.0 - _all_drawn(tried - won, tried, k)))


def pass_hat_k(successes: Sequence[int], attempts: Sequence[int], k: int) -> float | None:
    """Return the chance that all of k attempts at a task succeed, averaged over tasks.

    The unbiased estimator C(c, k) / C(n, k) of tau-bench (arXiv 2406.12045). Arguments as `pass_at_k`.
    """
    won, tried = _enough(successes, attempts, k)
    if not tried.size:
        return None
    return float(np.mean(_all_drawn(won, tried, k)))


def paired_difference(
    first: ArrayLike, second: ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Return the mean of `first - second` over tasks with its bootstrap interval over tasks.

    Pairing takes the difficulty of the tasks out of the comparison.

    Args:
        first: [T] value of each task for one agent.
        second: [T] value of the same tasks, in the same order, for the other.
        confidence: Coverage of the interval.
        seed: Seed of the resampling.

    Raises:
        ValueError: The lengths differ.
    """
    a, b = _vector(first), _vector(second)
    if a.size != b.size:
        raise ValueError(f"paired values must be as many on both sides, got {a.size} and {b.size}")
    return mean_interval(a - b, confidence=confidence, seed=seed)


def _vector(values: ArrayLike) -> NDArray[np.float64]:
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
        z = NormalDist().inv_cdf(1 - tail)
        student = z + (z**3 + z) / (4 * (size - 1)) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * (size - 1) ** 2)
        tail = NormalDist().cdf(-student * (size / (size - 1)) ** 0.5)
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _enough(
    successes: Sequence[int], attempts: Sequence[int], k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    won, tried = _vector(successes), _vector(attempts)
    if won.size != tried.size or (won > tried).any() or (won < 0).any():
        raise ValueError("expected 0 to n successes for each of the tasks' n attempts")
    kept = tried >= k
    return won[kept], tried[kept]


def _all_drawn(marked: NDArray[np.float64], total: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return C(marked, k) / C(total, k): the chance that k drawn without return are all marked."""
    chance = np.ones_like(total)
    for drawn in range(k):
        chance *= np.clip(marked - drawn, 0.0, None) / (total - drawn)
    return chance

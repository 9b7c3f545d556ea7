"""Rates of tasks that are tried several times: pass@k and pass^k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agent_gym.support.intervals import vector


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


def _enough(
    successes: Sequence[int], attempts: Sequence[int], k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    won, tried = vector(successes), vector(attempts)
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

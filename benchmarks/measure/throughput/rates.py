"""Rates and durations, in CPU time unless another clock is given."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_rate(work: Callable[[], object], amount: int, seconds: float) -> float:
    """Return how many units per CPU second `work`, which does `amount` of them, gets done.

    Args:
        work: Called again until the time is up, at least once.
        amount: Units of one call.
        seconds: CPU seconds to measure for.
    """
    done, begin = 0, time.process_time()
    while True:
        work()
        done += amount
        spent = time.process_time() - begin
        if spent >= seconds:
            return done / spent


def durations(
    work: Callable[[int], object], seconds: float, least: int, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return the seconds of `work(0)`, `work(1)`, ... until they add up to `seconds`, at least `least`.

    Args:
        work: Called with the number of the call.
        seconds: Seconds to measure for.
        least: Calls to make at least.
        clock: What to measure by; CPU time unless another is given.
    """
    taken: list[float] = []
    total = 0.0
    while total < seconds or len(taken) < least:
        begin = clock()
        work(len(taken))
        taken.append(clock() - begin)
        total += taken[-1]
    return taken

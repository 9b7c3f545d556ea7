"""Rates in CPU time, and peak memory of this process."""

from __future__ import annotations

import time
import tracemalloc
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


def durations(work: Callable[[int], object], seconds: float, least: int) -> list[float]:
    """Return the CPU seconds of `work(0)`, `work(1)`, ... until they add up to `seconds`, at least `least`."""
    taken: list[float] = []
    total = 0.0
    while total < seconds or len(taken) < least:
        begin = time.process_time()
        work(len(taken))
        taken.append(time.process_time() - begin)
        total += taken[-1]
    return taken


def peak_kib_per_item(make: Callable[[int], object], count: int) -> float:
    """Return the most memory that Python and NumPy held while `make(0)`, ..., `make(count - 1)` were made and
    kept, by item, in KiB.

    The first item is made beforehand, so that what all of them share is not counted.
    """
    held = [make(0)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        held += [make(number) for number in range(count)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (peak - before) / 1024 / count

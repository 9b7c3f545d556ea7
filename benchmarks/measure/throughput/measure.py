"""Rates in CPU time, and memory of this process."""

from __future__ import annotations

import os
import resource
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path


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


def resident_mib() -> float:
    """Return the resident memory of this process in MiB; the largest so far where the system tells no more."""
    path = Path("/proc/self/statm")
    if path.exists():
        return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

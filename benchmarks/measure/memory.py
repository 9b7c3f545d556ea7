"""Memory of this process, in the ways that the system tells of it."""

from __future__ import annotations

import os
import resource
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path


def peak_mib() -> float:
    """Return the largest resident memory that this process has had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def resident_mib() -> float:
    """Return the resident memory of this process in MiB; the largest so far where the system tells no more."""
    path = Path("/proc/self/statm")
    if path.exists():
        return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return peak_mib()


def private_kib(*kinds: str) -> int | None:
    """Return the memory that no other process shares, in KiB; None where the system does not tell.

    Args:
        kinds: Names of /proc/self/smaps_rollup: `Private_Dirty` for pages that were written, `Private_Clean` for
            those of files that only this process maps.
    """
    try:
        lines = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()]
    except OSError:
        return None
    return sum(int(line[1]) for line in lines if line[0].removesuffix(":") in kinds)


def peak_kib_per_item(make: Callable[[int], object], count: int) -> float:
    """Return the most memory that Python and NumPy held while `make(0)`, ..., `make(count - 1)` were made and
    kept, by item, in KiB.

    The first item is made beforehand, so that what all of them share is not counted.
    """
    kept = [make(0)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept += [make(number) for number in range(count)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (peak - before) / 1024 / count

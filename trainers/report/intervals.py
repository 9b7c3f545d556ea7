"""Success rates of a run's evaluations, and their gains, from the outcomes of episodes.

Episodes of one task are alike, so tasks are the units; evaluations that play the same tasks are compared task by
task. The intervals are those of `agent-gym eval` (`agent_gym.support.intervals`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from agent_gym.support.intervals import Interval, paired_difference, rate_interval


def by_task(outcomes: Iterable[tuple[str, bool]]) -> dict[str, list[bool]]:
    """Return the outcomes of each task, from (task id, success) of every episode."""
    found: dict[str, list[bool]] = defaultdict(list)
    for task, success in outcomes:
        found[task].append(success)
    return dict(found)


def rate(tasks: Mapping[str, Sequence[bool]]) -> Interval | None:
    """Return the mean success over tasks, or None without any."""
    return rate_interval([fmean(values) for values in tasks.values()]) if tasks else None


def difference(before: Mapping[str, Sequence[bool]], after: Mapping[str, Sequence[bool]]) -> Interval | None:
    """Return the mean of `after - before` over the tasks that both have, or None when there are fewer than two."""
    shared = sorted(before.keys() & after.keys())  # one order, one interval
    if len(shared) < 2:
        return None
    return paired_difference([fmean(after[task]) for task in shared], [fmean(before[task]) for task in shared])

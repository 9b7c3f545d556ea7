"""The cheapest way to give every box its own goal: a lower bound of the pushes that are left."""

from __future__ import annotations

from collections.abc import Sequence

_SMALL = 5
"""Up to this many boxes, dynamic programming over sets of goals is faster than the Hungarian method here."""


def assignment_cost(costs: Sequence[Sequence[int | None]]) -> int | None:
    """Return the least total cost of a perfect matching, None if there is none.

    Args:
        costs: Square matrix, boxes by goals; None where a box cannot reach a goal.
    """
    if len(costs) <= _SMALL:
        return _by_subsets(costs)
    return _hungarian(costs)


def _by_subsets(costs: Sequence[Sequence[int | None]]) -> int | None:
    """Least cost by sets of used goals, box after box."""
    totals = {0: 0}
    for row in costs:
        longer: dict[int, int] = {}
        for used, total in totals.items():
            bit = 1
            for cost in row:
                if cost is not None and not used & bit:
                    key = used | bit
                    value = total + cost
                    if value < longer.get(key, value + 1):
                        longer[key] = value
                bit <<= 1
        totals = longer
    return totals.get((1 << len(costs)) - 1)


def _hungarian(costs: Sequence[Sequence[int | None]]) -> int | None:
    """Kuhn-Munkres with potentials and shortest augmenting paths, O(n^3)."""
    size = len(costs)
    finite = [cost for row in costs for cost in row if cost is not None]
    # Dearer than any matching without impossible pairs, so that it is used only when there is none.
    impossible = (max(finite, default=0) + 1) * (size + 1)
    row_potential = [0] * (size + 1)
    column_potential = [0] * (size + 1)
    match = [0] * (size + 1)
    for row in range(1, size + 1):
        match[0] = row
        column = 0
        slack = [impossible * (size + 2)] * (size + 1)
        came_from = [0] * (size + 1)
        used = [False] * (size + 1)
        while True:
            used[column] = True
            current = match[column]
            line = costs[current - 1]
            base = row_potential[current]
            delta, nearest = impossible * (size + 3), 0
            for other in range(1, size + 1):
                if used[other]:
                    continue
                cost = line[other - 1]
                reduced = (impossible if cost is None else cost) - base - column_potential[other]
                if reduced < slack[other]:
                    slack[other] = reduced
                    came_from[other] = column
                if slack[other] < delta:
                    delta, nearest = slack[other], other
            for other in range(size + 1):
                if used[other]:
                    row_potential[match[other]] += delta
                    column_potential[other] -= delta
                else:
                    slack[other] -= delta
            column = nearest
            if match[column] == 0:
                break
        while column:
            match[column] = match[came_from[column]]
            column = came_from[column]
    total = 0
    for column in range(1, size + 1):
        cost = costs[match[column] - 1][column - 1]
        if cost is None:
            return None
        total += cost
    return total

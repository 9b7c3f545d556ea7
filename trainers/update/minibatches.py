"""How the rows of a batch are cut: into minibatches, over ranks, into micro-batches. Pure functions of lengths.

Every rank knows the rows of all and makes the same cut, so that it knows the others' work, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_gym.support.seeding import generator
from trainers.policy.dedup import Kinds
from trainers.policy.token_rows import TokenRow
from trainers.update.types import ScoredRow


def cut_minibatches(rows: Sequence[TokenRow], size: int, seed: int, *, whole_episodes: bool) -> list[list[int]]:
    """Cut row indices, in a shuffled order, into minibatches.

    They are as equal as can be: the few rows that would be left over would get a whole optimiser step.

    Args:
        rows: The rows of a batch.
        size: Most rows of a minibatch; 0 takes all.
        seed: Seed of the order.
        whole_episodes: Keep the rows of an episode in one minibatch, which may then be a little larger.
    """
    units: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        units.setdefault(row.episode if whole_episodes else index, []).append(index)
    listed = list(units.values())
    count = -(-len(rows) // (size or len(rows)))
    minibatches: list[list[int]] = [[]]
    placed = 0
    for unit in generator("minibatches", seed).permutation(len(listed)).tolist():
        if placed * count >= len(rows) * len(minibatches):
            minibatches.append([])
        minibatches[-1] += listed[unit]
        placed += len(listed[unit])
    return minibatches


def assign_owners(minibatches: Sequence[Sequence[int]], lengths: Sequence[int], size: int) -> list[int]:
    """Return the rank that trains on each row, such that every minibatch is spread evenly.

    Rows of a minibatch are dealt out by length, forth and back over the ranks.

    Args:
        minibatches: Indices of rows; each row occurs once.
        lengths: Tokens of each row.
        size: Number of ranks.
    """
    owners = [0] * len(lengths)
    if size == 1:
        return owners
    for minibatch in minibatches:
        ordered = sorted(minibatch, key=lambda index: (-lengths[index], index))
        for number, index in enumerate(ordered):
            turn, rank = divmod(number, size)
            owners[index] = size - 1 - rank if turn % 2 else rank
    return owners


def micro_batches(
    rows: Sequence[ScoredRow], rank: int, size: int, max_tokens: int, *, share: bool
) -> list[tuple[int, ...]]:
    """Return a rank's micro-batches, indices of rows; empty ones make up the number that the busiest rank needs.

    Args:
        rows: Rows of all ranks.
        rank: The rank.
        size: Number of ranks.
        max_tokens: Most tokens in a forward pass, padding included.
        share: Whether rows of equal tokens count once.
    """
    plans = []
    for number in range(size):
        mine = [index for index, item in enumerate(rows) if item.owner == number]
        kinds = Kinds.of([rows[index].row for index in mine], share)
        cut = kinds.plan([len(rows[index].row) for index in mine], max_tokens)
        plans.append([tuple(mine[place] for place in places) for places in cut])
    plan = plans[rank]
    return plan + [()] * (max(map(len, plans)) - len(plan))

"""Rows of equal tokens, which need one pass through the model between them.

The episodes of a group start from one state, and often come back to states of each other. Where a turn's prompt
holds nothing but the state, as in window context with a short history, a batch repeats the same prompt with the
same reply many times, and what the model says of it is the same each time. Their advantages differ, so they are
told apart again before the loss, whose gradient adds up over them.

Nothing random happens in a forward pass (a policy in training has its dropout off), so that this changes no
result beyond rounding. Left out: sharing the prompts of rows whose replies differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trainers.policy.logprobs import Scorer, TokenStats
from trainers.policy.token_rows import PaddedRows, TokenRow, plan_microbatches


@dataclass(frozen=True, slots=True)
class Kinds:
    """Rows sorted into kinds: rows of one kind hold equal ids and equal masks.

    Attributes:
        first: Index of the first row of each kind, K of them.
        kind: The kind of each of the B rows, below K.
    """

    first: tuple[int, ...]
    kind: tuple[int, ...]

    @classmethod
    def of(cls, rows: Sequence[TokenRow], share: bool = True) -> Kinds:
        """Sort rows.

        Args:
            rows: The rows.
            share: False makes a kind of each row.
        """
        if not share:
            return cls(tuple(range(len(rows))), tuple(range(len(rows))))
        known: dict[tuple[tuple[int, ...], tuple[bool, ...]], int] = {}
        kind = tuple(known.setdefault((row.ids, row.mask), len(known)) for row in rows)
        first = dict(zip(reversed(kind), range(len(rows) - 1, -1, -1), strict=True))
        return cls(tuple(first[number] for number in range(len(first))), kind)

    def plan(self, lengths: Sequence[int], max_tokens: int) -> list[tuple[int, ...]]:
        """Cut the rows into micro-batches in which a kind counts once; see `plan_microbatches`.

        Args:
            lengths: Length of each row.
            max_tokens: Most tokens that go through the model at once.

        Returns:
            Indices of rows; rows of one kind are in one micro-batch.
        """
        members: list[list[int]] = [[] for _ in self.first]
        for index, number in enumerate(self.kind):
            members[number].append(index)
        plan = plan_microbatches([lengths[index] for index in self.first], max_tokens)
        return [tuple(index for number in part for index in members[number]) for part in plan]


def shared_stats(
    scorer: Scorer,
    padded: PaddedRows,
    kinds: Kinds,
    temperature: float,
    *,
    entropy: bool,
    entropy_gradient: bool = False,
) -> TokenStats:
    """Score rows, each kind once.

    Args:
        scorer: What scores them.
        padded: All rows, [B, T].
        kinds: Their kinds.
        temperature: Sampling temperature.
        entropy: Whether entropies (nats) are asked for.
        entropy_gradient: Whether these have a gradient.

    Returns:
        The values of all rows, [B, T]; where kinds repeat, gradients add up over their rows.
    """
    repeated = len(kinds.first) < len(kinds.kind)
    one_each = padded.take(kinds.first) if repeated else padded
    stats = scorer.token_stats(one_each, temperature, entropy=entropy, entropy_gradient=entropy_gradient)
    if not repeated:
        return stats
    kind = torch.tensor(kinds.kind, device=stats.logp.device)
    return TokenStats(stats.logp[kind], None if stats.entropy is None else stats.entropy[kind])

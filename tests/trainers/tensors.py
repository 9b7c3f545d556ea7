"""Small token batches for tests of the token-level maths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trainers.update.token_batch import TokenBatch

GARBAGE = (float("nan"), float("inf"), float("-inf"), -1.0, 1e30)


@dataclass(frozen=True)
class Reply:
    """One turn: log-ratio of each sampled token, the turn's advantage, and what else a batch holds."""

    log_ratio: Sequence[float]
    advantage: float
    episode: int = 0
    old: Sequence[float] | None = None
    ref: Sequence[float] | None = None
    entropy: Sequence[float] | None = None


@dataclass
class Leaf:
    """A batch together with the leaves that gradients are read from, by turn."""

    tokens: TokenBatch
    leaf: Tensor
    places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def grad(self) -> dict[int, list[float]]:
        """Gradient to the log-probabilities of each turn."""
        grad = torch.zeros_like(self.leaf) if self.leaf.grad is None else self.leaf.grad
        return {turn: [float(grad[spot]) for spot in spots] for turn, spots in self.places.items()}


def batch(rows: Sequence[Sequence[tuple[int, Reply]]], *, lead: int = 1, tail: int = 0, gap: int = 1) -> Leaf:
    """Lay out rows of (turn id, reply) with garbage of the given widths before, after and between replies."""
    width = lead + tail + max(sum(len(reply.log_ratio) + gap for _, reply in row) for row in rows)
    shape = (len(rows), width)
    junk = torch.tensor(GARBAGE, dtype=torch.float64).repeat(len(rows) * width // 5 + 1)[: len(rows) * width]
    columns: dict[str, Any] = {
        name: junk.reshape(shape).roll(shift, dims=1).clone()
        for shift, name in enumerate(("logp_new", "logp_old", "advantage", "logp_ref", "entropy"))
    }
    mask = torch.zeros(shape, dtype=torch.float64)
    segment = torch.full(shape, -1, dtype=torch.int64)
    places: dict[int, list[tuple[int, int]]] = {}
    for row, replies in enumerate(rows):
        at = lead
        for turn, reply in replies:
            length = len(reply.log_ratio)
            span = slice(at, at + length)
            old = torch.tensor(reply.old or [-1.0] * length, dtype=torch.float64)
            columns["logp_old"][row, span] = old
            columns["logp_new"][row, span] = old + torch.tensor(reply.log_ratio, dtype=torch.float64)
            columns["advantage"][row, span] = reply.advantage
            columns["logp_ref"][row, span] = torch.tensor(reply.ref or [-1.2] * length, dtype=torch.float64)
            columns["entropy"][row, span] = torch.tensor(reply.entropy or [0.5] * length, dtype=torch.float64)
            mask[row, span] = 1
            segment[row, span] = turn
            places[turn] = [(row, column) for column in range(at, at + length)]
            at += length + gap
    leaf = columns["logp_new"].requires_grad_()
    episode = torch.tensor([row[0][1].episode if row else -1 for row in rows])
    return Leaf(TokenBatch(mask=mask, segment=segment, episode=episode, **columns), leaf, places)


def window(replies: Sequence[Reply], **layout: int) -> Leaf:
    """One row per turn, numbered in order."""
    return batch([[(turn, reply)] for turn, reply in enumerate(replies)], **layout)


def full(replies: Sequence[Reply], **layout: int) -> Leaf:
    """One row per episode, turns numbered as `window` numbers them."""
    episodes: dict[int, list[tuple[int, Reply]]] = {}
    for turn, reply in enumerate(replies):
        episodes.setdefault(reply.episode, []).append((turn, reply))
    return batch(list(episodes.values()), **layout)


_log_ratios = st.floats(-0.6, 0.6, allow_nan=False).map(lambda value: round(value, 4))


@st.composite
def reply_lists(draw: st.DrawFn, max_size: int = 7) -> list[Reply]:
    """Replies of up to three episodes, at least one."""
    result = []
    for _ in range(draw(st.integers(1, max_size))):
        length = draw(st.integers(1, 4))
        column = st.lists(st.floats(-3, -0.1).map(lambda v: round(v, 3)), min_size=length, max_size=length)
        result.append(
            Reply(
                log_ratio=draw(st.lists(_log_ratios, min_size=length, max_size=length)),
                advantage=draw(st.sampled_from([-1.5, -0.3, 0.0, 0.4, 2.0])),
                episode=draw(st.integers(0, 2)),
                old=draw(column),
                ref=draw(column),
                entropy=[-value for value in draw(column)],
            )
        )
    return result

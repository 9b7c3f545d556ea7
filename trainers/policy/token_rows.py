"""Token rows of unequal length as padded tensors, and how they are cut into micro-batches.

A row keeps the ids exactly as they were sampled: nothing here decodes or encodes text. Padding never changes
a result: positions are explicit, padded keys are masked out of attention and padding carries mask 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

import torch

from agent_gym.support.errors import ConfigError, DataError

NO_SEGMENT = -1
"""Segment id of tokens that belong to no turn's reply."""


class PaddingSide(StrEnum):
    """Where the padding of a short row goes."""

    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One training row: a prompt and its reply, or a whole conversation with several replies.

    Args:
        ids: Token ids in the order the model reads them, length T >= 1.
        mask: True exactly on sampled tokens (the end-of-turn token included), length T. The first token has
            nothing before it that could predict it, so `mask[0]` must be False.
        segments: Id of the turn each sampled token belongs to, -1 elsewhere, length T. Ids must be unique in
            one minibatch. None puts every sampled token in segment 0.
        episode: Id of the episode the row comes from; rows of one episode can be kept in one micro-batch.
        weights: Weight of each token in a supervised loss, length T. None is 1 on every sampled token.
        logprobs: Log-probability the sampler gave each token, length T, read where `mask` is True only.

    Raises:
        DataError: Lengths differ, the row is empty, `mask[0]` is True, or a sampled token has no segment.
    """

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    segments: tuple[int, ...] | None = None
    episode: int = 0
    weights: tuple[float, ...] | None = None
    logprobs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.ids:
            raise DataError("a token row must hold at least one token, got none")
        for name in ("mask", "segments", "weights", "logprobs"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.ids):
                raise DataError(f"{name} must have one entry per token: expected {len(self.ids)}, got {len(value)}")
        if self.mask[0]:
            raise DataError("mask[0] is True, but the first token of a row cannot be predicted: put a prompt first")
        if self.segments is not None and any(
            on != (segment != NO_SEGMENT) for on, segment in zip(self.mask, self.segments, strict=True)
        ):
            raise DataError(f"segments must be {NO_SEGMENT} exactly where mask is False")

    @classmethod
    def from_reply(
        cls,
        prompt: Sequence[int],
        reply: Sequence[int],
        *,
        segment: int = 0,
        episode: int = 0,
        logprobs: Sequence[float] | None = None,
        weights: Sequence[float] | None = None,
    ) -> TokenRow:
        """Return the row of one turn: `prompt` with mask 0, then `reply` with mask 1.

        Args:
            prompt: Prompt ids, at least one.
            reply: Sampled ids, the end token included when it was sampled.
            segment: Id of this turn, unique over a minibatch.
            episode: Id of the episode.
            logprobs: Sampler's log-probabilities of the reply tokens.
            weights: Supervised weights of the reply tokens.

        Raises:
            DataError: As for the class, or `logprobs` / `weights` do not match the reply.
        """
        before, after = len(prompt), len(reply)
        for name, values in (("logprobs", logprobs), ("weights", weights)):
            if values is not None and len(values) != after:
                raise DataError(f"{name} must have one entry per reply token: expected {after}, got {len(values)}")
        zeros = (0.0,) * before
        return cls(
            ids=(*prompt, *reply),
            mask=(False,) * before + (True,) * after,
            segments=(NO_SEGMENT,) * before + (segment,) * after,
            episode=episode,
            weights=None if weights is None else (*zeros, *weights),
            logprobs=None if logprobs is None else (*zeros, *logprobs),
        )

    @property
    def reply_tokens(self) -> int:
        """Number of sampled tokens."""
        return sum(self.mask)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class PaddedRows:
    """Rows padded to one width T; every field is a tensor on the same device.

    Attributes:
        input_ids: int64 [B, T].
        attention_mask: int64 [B, T], 1 on real tokens.
        position_ids: int64 [B, T], 0 at the first real token of a row (and on padding).
        mask: bool [B, T], True on sampled tokens.
        segment: int64 [B, T], turn ids, -1 where mask is False.
        episode: int64 [B].
        weight: float32 [B, T], 0 where mask is False.
        sampler_logp: float32 [B, T] or None when a row has none; 0 where mask is False.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor
    mask: torch.Tensor
    segment: torch.Tensor
    episode: torch.Tensor
    weight: torch.Tensor
    sampler_logp: torch.Tensor | None = None

    def to(self, device: torch.device | str) -> PaddedRows:
        """Return the same rows on `device`."""
        return self._each(lambda value: value.to(device))

    def take(self, rows: Sequence[int]) -> PaddedRows:
        """Return these rows, in this order, at the same width."""
        index = torch.tensor(rows, device=self.input_ids.device)
        return self._each(lambda value: value[index])

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> PaddedRows:
        held = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(self, **{name: change(value) for name, value in held.items() if value is not None})

    @property
    def n_tokens(self) -> int:
        """Number of sampled tokens."""
        return int(self.mask.sum())

    def __len__(self) -> int:
        return self.input_ids.shape[0]


def pad_rows(
    rows: Sequence[TokenRow],
    pad_id: int,
    *,
    side: PaddingSide = PaddingSide.RIGHT,
    width: int | None = None,
    device: torch.device | str = "cpu",
) -> PaddedRows:
    """Pad `rows` to one width.

    Args:
        rows: At least one row.
        pad_id: Id written on padding. It may equal the end id: the mask comes from the rows, never from ids.
        side: Where padding goes.
        width: Padded width T, the longest row when None. Nothing is cut: a smaller width is an error.
        device: Where the tensors are put.

    Raises:
        DataError: No rows.
        ConfigError: `width` is smaller than the longest row.
    """
    if not rows:
        raise DataError("cannot pack zero rows")
    longest = max(map(len, rows))
    total = longest if width is None else width
    if total < longest:
        raise ConfigError(f"width {total} would cut a row of {longest} tokens; pass width >= {longest} or None")
    left = side is PaddingSide.LEFT

    def table(values: Iterator[Sequence[float]], fill: float, dtype: torch.dtype) -> torch.Tensor:
        padded = []
        for value in values:
            padding = [fill] * (total - len(value))
            padded.append([*padding, *value] if left else [*value, *padding])
        return torch.tensor(padded, dtype=dtype)

    mask_BT = table((row.mask for row in rows), False, torch.bool)
    segments = (row.segments or tuple(0 if on else NO_SEGMENT for on in row.mask) for row in rows)
    weight_BT = mask_BT.to(torch.float32)
    if any(row.weights is not None for row in rows):
        weights = (row.weights or tuple(map(float, row.mask)) for row in rows)
        weight_BT = torch.where(mask_BT, table(weights, 0.0, torch.float32), 0.0)
    length_B1 = torch.tensor([[len(row)] for row in rows])
    place_BT = torch.arange(total)[None] - (total - length_B1 if left else torch.zeros_like(length_B1))
    real_BT = (place_BT >= 0) & (place_BT < length_B1)
    logp_BT = None
    if all(row.logprobs is not None for row in rows):
        logp_BT = table((row.logprobs or () for row in rows), 0.0, torch.float32)
        logp_BT = torch.where(mask_BT, logp_BT, 0.0)
    return PaddedRows(
        input_ids=table((row.ids for row in rows), pad_id, torch.int64),
        attention_mask=real_BT.to(torch.int64),
        position_ids=torch.where(real_BT, place_BT, 0),
        mask=mask_BT,
        segment=table(segments, NO_SEGMENT, torch.int64),
        episode=torch.tensor([row.episode for row in rows], dtype=torch.int64),
        weight=weight_BT,
        sampler_logp=logp_BT,
    ).to(device)


def plan_microbatches(
    lengths: Sequence[int],
    max_tokens_per_microbatch: int,
    *,
    groups: Sequence[Hashable] | None = None,
) -> list[tuple[int, ...]]:
    """Cut rows into micro-batches whose padded size (rows x longest row) stays within a token budget.

    Rows are taken longest first, so that rows of one micro-batch have similar lengths and the largest
    micro-batch (the one that may run out of memory) comes first. Ties keep the given order: the plan is a
    pure function of its arguments.

    Args:
        lengths: Token count of each row.
        max_tokens_per_microbatch: Budget on rows x longest row. A row, or a group, that is larger than the
            budget on its own is never cut: it gets a micro-batch for itself.
        groups: One key per row; rows with equal keys (for example `TokenRow.episode`) stay together.

    Returns:
        Tuples of row indices; every row occurs exactly once.

    Raises:
        ConfigError: The budget is not positive or `groups` has the wrong length.
    """
    if max_tokens_per_microbatch < 1:
        raise ConfigError(f"max_tokens_per_microbatch must be at least 1, got {max_tokens_per_microbatch}")
    if groups is not None and len(groups) != len(lengths):
        raise ConfigError(f"groups must have one key per row: expected {len(lengths)}, got {len(groups)}")
    members: dict[Hashable, list[int]] = {}
    for index in range(len(lengths)):
        members.setdefault(index if groups is None else groups[index], []).append(index)
    units = sorted(members.values(), key=lambda unit: -max(lengths[index] for index in unit))
    plan: list[tuple[int, ...]] = []
    current: list[int] = []
    widest = 0
    for unit in units:
        width = max(widest, max(lengths[index] for index in unit))
        if current and width * (len(current) + len(unit)) > max_tokens_per_microbatch:
            plan.append(tuple(current))
            current, width = [], max(lengths[index] for index in unit)
        current.extend(unit)
        widest = width
    if current:
        plan.append(tuple(current))
    return plan

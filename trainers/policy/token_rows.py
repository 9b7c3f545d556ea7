"""Token rows of unequal length as padded tensors, and how they are cut into micro-batches.

A row keeps the ids exactly as they were sampled: nothing here decodes or encodes text. Its ids become a tensor
once, however often the row is padded. Padding never changes a result: positions are explicit, padded keys are
masked out of attention and padding carries mask 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch

from agent_gym.support.errors import ConfigError, DataError

NO_SEGMENT = -1
"""Segment id of tokens that belong to no turn's reply."""


def _column(padded: str, missing: float | None) -> Any:
    """Declare a column of one value a token, which is padded with the row.

    Args:
        padded: Its name in `PaddedRows`.
        missing: Value at the sampled tokens of a row that has no such column; None: then no row has it.
    """
    return field(default=None, metadata={"padded": padded, "missing": missing})


@dataclass(frozen=True)
class TokenRow:
    """One training row: a prompt and its reply, or a whole conversation with several replies.

    A further column of one value a token is a field here, made by `_column`, and one in `PaddedRows`.

    Args:
        ids: Token ids in the order the model reads them, length T >= 1.
        mask: True exactly on sampled tokens (the end-of-turn token included), length T. The first token has
            nothing before it that could predict it, so `mask[0]` must be False.
        segments: Id of the turn each sampled token belongs to, -1 elsewhere, length T. Ids must be unique in
            one minibatch. None puts every sampled token in segment 0.
        episode: Id of the episode the row comes from.
        weights: Weight of each token in a supervised loss, length T. None is 1 on every sampled token.
        logprobs: Log-probability the sampler gave each token, length T, read where `mask` is True only.

    Raises:
        DataError: Lengths differ, the row is empty, `mask[0]` is True, or a sampled token has no segment.
    """

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    segments: tuple[int, ...] | None = None
    episode: int = 0
    weights: tuple[float, ...] | None = _column("weight", missing=1.0)
    logprobs: tuple[float, ...] | None = _column("sampler_logp", missing=None)

    def __post_init__(self) -> None:
        if not self.ids:
            raise DataError("a token row must hold at least one token, got none")
        for name in ("mask", "segments", *_COLUMNS):
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
        given = {"logprobs": logprobs, "weights": weights}
        for name, values in given.items():
            if values is not None and len(values) != after:
                raise DataError(f"{name} must have one entry per reply token: expected {after}, got {len(values)}")
        zeros = (0.0,) * before
        return cls(
            ids=(*prompt, *reply),
            mask=(False,) * before + (True,) * after,
            segments=(NO_SEGMENT,) * before + (segment,) * after,
            episode=episode,
            **{name: (*zeros, *values) for name, values in given.items() if values is not None},
        )

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The row as tensors of length T, by field: int64 ids and segments, bool mask, float32 columns it has.

        Columns are 0 where nothing was sampled.
        """
        mask_T = torch.tensor(self.mask)
        found = {
            "ids": torch.tensor(self.ids, dtype=torch.int64),
            "mask": mask_T,
            "segments": torch.where(mask_T, 0, NO_SEGMENT)
            if self.segments is None
            else torch.tensor(self.segments, dtype=torch.int64),
        }
        for name in _COLUMNS:
            values = getattr(self, name)
            if values is not None:
                found[name] = torch.where(mask_T, torch.tensor(values, dtype=torch.float32), 0.0)
        return found

    @property
    def reply_tokens(self) -> int:
        """Number of sampled tokens."""
        return sum(self.mask)

    def __len__(self) -> int:
        return len(self.ids)


_COLUMNS = {item.name: item.metadata for item in fields(TokenRow) if "padded" in item.metadata}
"""Columns of a row: field -> how it is padded."""


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


def pad_rows(rows: Sequence[TokenRow], pad_id: int, *, device: torch.device | str = "cpu") -> PaddedRows:
    """Pad `rows` on the right to the width T of the longest one.

    Args:
        rows: B of them, at least one.
        pad_id: Id written on padding. It may equal the end id: the mask comes from the rows, never from ids.
        device: Where the tensors are put.

    Raises:
        DataError: No rows.
    """
    if not rows:
        raise DataError("cannot pad zero rows")

    def padded(name: str, fill: float) -> torch.Tensor:
        values = [row.tensors[name] for row in rows]
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)

    mask_BT = padded("mask", False)
    columns = {}
    for name, how in _COLUMNS.items():
        missing = how["missing"]
        if missing is None and any(getattr(row, name) is None for row in rows):
            continue
        values = [row.tensors[name] if name in row.tensors else row.tensors["mask"] * missing for row in rows]
        columns[how["padded"]] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    length_B1 = torch.tensor([[len(row)] for row in rows])
    place_BT = torch.arange(mask_BT.shape[1])[None].expand_as(mask_BT)
    real_BT = place_BT < length_B1
    return PaddedRows(
        input_ids=padded("ids", pad_id),
        attention_mask=real_BT.to(torch.int64),
        position_ids=torch.where(real_BT, place_BT, 0),
        mask=mask_BT,
        segment=padded("segments", NO_SEGMENT),
        episode=torch.tensor([row.episode for row in rows], dtype=torch.int64),
        **columns,
    ).to(device)


def plan_microbatches(lengths: Sequence[int], max_tokens_per_microbatch: int) -> list[tuple[int, ...]]:
    """Cut rows into micro-batches whose padded size (rows x longest row) stays within a token budget.

    Rows are taken longest first, so that rows of one micro-batch have similar lengths and the largest
    micro-batch (the one that may run out of memory) comes first. Ties keep the given order: the plan is a
    pure function of its arguments.

    Args:
        lengths: Token count of each row.
        max_tokens_per_microbatch: Budget on rows x longest row. A row that is larger than the budget on its own
            is never cut: it gets a micro-batch for itself.

    Returns:
        Tuples of row indices; every row occurs exactly once.

    Raises:
        ConfigError: The budget is not positive.
    """
    if max_tokens_per_microbatch < 1:
        raise ConfigError(f"max_tokens_per_microbatch must be at least 1, got {max_tokens_per_microbatch}")
    plan: list[tuple[int, ...]] = []
    current: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        # The first row of a micro-batch is its longest.
        if current and lengths[current[0]] * (len(current) + 1) > max_tokens_per_microbatch:
            plan.append(tuple(current))
            current = []
        current.append(index)
    if current:
        plan.append(tuple(current))
    return plan

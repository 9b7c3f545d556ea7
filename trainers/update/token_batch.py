"""Token tensors of training rows, and sums over the turns inside them.

A row is one turn (window context) or a whole conversation (full context). The `segment` tensor names the turn
of every sampled token, so that both are computed alike: a *sequence* is always one turn's reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_gym.support.errors import DataError


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Tensors of B rows padded to width T.

    Values where `mask` is off may be anything, infinities and NaN included: nothing reads them. All tokens of
    a turn lie in one row, and segment ids are unique over the optimiser minibatch.

    Raises:
        DataError: When shapes differ, a sampled token has no segment, or two rows share a segment.
    """

    logp_new: Tensor
    """Log-probabilities of the sampled tokens under the policy in training, [B, T], carrying the graph."""
    logp_old: Tensor
    """The same under the policy that produced the batch, evaluated by the trainer, [B, T]."""
    advantage: Tensor
    """Advantage of the token's turn, [B, T]."""
    mask: Tensor
    """Non-zero exactly on sampled tokens, float or bool [B, T]."""
    segment: Tensor
    """Id of the turn a sampled token belongs to, -1 elsewhere, int [B, T]."""
    episode: Tensor
    """Id of the row's episode, int [B]."""
    logp_ref: Tensor | None = None
    """Log-probabilities under the reference policy, [B, T]."""
    entropy: Tensor | None = None
    """Entropy of the policy in training at each token in nats, [B, T]; with graph for an entropy bonus."""

    def __post_init__(self) -> None:
        shape = self.logp_new.shape
        if len(shape) != 2:
            raise DataError(f"logp_new must have shape [B, T], got {tuple(shape)}.")
        for name in ("logp_old", "advantage", "mask", "segment", "logp_ref", "entropy"):
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise DataError(f"{name} must have shape {tuple(shape)} like logp_new, got {tuple(value.shape)}.")
        if self.episode.shape != shape[:1]:
            raise DataError(f"episode must have shape ({shape[0]},), got {tuple(self.episode.shape)}.")
        if bool((self.sampled & (self.segment < 0)).any()):
            raise DataError("a sampled token (mask on) has segment -1; give each sampled token its turn's id.")
        if _shared_segments(self.segment, self.sampled):
            raise DataError("two rows share a segment id; number the turns uniquely over the minibatch.")

    @property
    def sampled(self) -> Tensor:
        """The mask as bool [B, T]."""
        return self.mask != 0

    @property
    def dtype(self) -> torch.dtype:
        """The dtype losses are computed in: float64 when `logp_new` is, else float32."""
        return torch.float64 if self.logp_new.dtype == torch.float64 else torch.float32

    def clean(self, values: Tensor) -> Tensor:
        """Return values [B, T] in `dtype`, exactly 0 where nothing was sampled, forward and backward.

        Selecting before any arithmetic keeps garbage of padding out of the gradient, too: a product with the
        mask would turn an infinity into NaN.
        """
        return torch.where(self.sampled, values.to(self.dtype), 0.0)


@dataclass(frozen=True, eq=False)
class Segments:
    """Sums and means over groups of sampled tokens: turns, or episodes."""

    index: Tensor
    """Bucket of each token, int64 [B, T]; `count` where nothing was sampled."""
    count: int
    """Number of groups S."""
    n_tokens: Tensor
    """Sampled tokens of each group, int64 [S]."""
    ids: Tensor
    """The id of each group, ascending, int64 [S]."""

    @staticmethod
    def of(ids: Tensor, sampled: Tensor) -> Segments:
        """Group sampled tokens by id.

        Args:
            ids: Non-negative where sampled, int [B, T].
            sampled: Bool [B, T].
        """
        found, inverse = torch.unique(ids[sampled], return_inverse=True)
        count = int(found.numel())
        index = torch.full(ids.shape, count, dtype=torch.int64, device=ids.device)
        index[sampled] = inverse
        return Segments(index, count, torch.bincount(inverse, minlength=count), found.to(torch.int64))

    def sum(self, values: Tensor) -> Tensor:
        """Sum values [B, T] inside each group, [S]. Values must be 0 where nothing was sampled."""
        sums = torch.zeros(self.count + 1, dtype=values.dtype, device=values.device)
        return sums.index_add(0, self.index.reshape(-1), values.reshape(-1))[: self.count]

    def mean(self, values: Tensor) -> Tensor:
        """Mean of values [B, T] over the sampled tokens of each group, [S]."""
        return self.sum(values) / self.n_tokens

    def spread(self, values: Tensor) -> Tensor:
        """Give each token the value [S] of its group, [B, T]; 0 (or False) where nothing was sampled."""
        padded = torch.cat([values, values.new_zeros(1)])
        return padded[self.index]


def turns(tokens: TokenBatch) -> Segments:
    """Group the sampled tokens by turn."""
    return Segments.of(tokens.segment, tokens.sampled)


@dataclass(frozen=True)
class MinibatchTotals:
    """Denominators of one whole optimiser minibatch: over all of its micro-batches and all ranks.

    Computed up front, so that a micro-batch can divide its own numerator at once and gradients add up to
    those of the unsplit minibatch. Every rank counts the rows of all, and gradients of ranks are
    added, not averaged (`trainers.policy.sharding`).
    """

    n_tokens: int
    """Sampled tokens."""
    n_sequences: int
    """Turns, those that a mask takes out of the loss included: masking one never re-weights the others."""

    def __post_init__(self) -> None:
        if self.n_tokens < 0 or self.n_sequences < 0:
            raise DataError(f"minibatch totals must be at least 0, got {self}.")

    @staticmethod
    def of(mask: Tensor, segment: Tensor) -> MinibatchTotals:
        """Count one micro-batch.

        Args:
            mask: Non-zero on sampled tokens, [B, T].
            segment: Turn ids, -1 elsewhere, int [B, T]. A turn counts by its id, even if its mask is all off.
        """
        return MinibatchTotals(
            n_tokens=int((mask != 0).sum()), n_sequences=int(torch.unique(segment[segment >= 0]).numel())
        )

    @staticmethod
    def sum(parts: Iterable[MinibatchTotals]) -> MinibatchTotals:
        """Add the totals of micro-batches or ranks."""
        listed = list(parts)
        return MinibatchTotals(sum(p.n_tokens for p in listed), sum(p.n_sequences for p in listed))


def _shared_segments(segment: Tensor, sampled: Tensor) -> bool:
    ids = segment[sampled].to(torch.int64)
    if not ids.numel():
        return False
    row = torch.arange(len(segment), device=segment.device)[:, None].expand_as(segment)[sampled]
    pairs = torch.unique(row * (ids.max() + 1) + ids)
    return int(pairs.numel()) > int(torch.unique(ids).numel())

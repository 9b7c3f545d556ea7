"""What travels through the update, in the order in which it is made.

| carrier | holds | made by |
|---|---|---|
| `Episode`, `Turn` (`agent_gym.play.episode`) | texts, rewards, sampled ids | the rollout |
| `RowTable` (`turn_table`) | a row a turn: rewards, penalties, anchors [R] | `batch` |
| `TokenRow` (`trainers.policy.token_rows`) | ids, mask, turns, columns of one value a token [T] | `batch` |
| `ScoredRow` | a token row and what is fixed during the update [T] | `updater`, `scoring_pass` |
| `PaddedRows` (`trainers.policy.token_rows`) | rows padded to one width [B, T] | `pad_rows` |
| `TokenBatch` (`token_batch`) | all that the loss reads of a micro-batch [B, T] | `updater` |
| `LossOutput` (`losses`) | the loss and its parts | `policy_loss` |
| `MicroStep`, `StepReport`; `TermReport` | what happened, for the diagnostics | `updater`; an `ExtraTerm` |

T is the length of a row, B rows are padded to one T, R counts turns. A further value a token that the trainer
computes is a field of `ScoredRow` and one of the same name in `TokenBatch` (also in its list of shapes), and is set
where it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol, Self, TypeAlias

import torch

from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow
from trainers.update.losses import LossOutput
from trainers.update.token_batch import TokenBatch
from trainers.update.turn_table import Floats

NO_EPISODE = -1
"""Episode of a row that is there for the other ranks only."""


@dataclass(frozen=True, eq=False)
class ScoredRow:
    """A token row with what is fixed during the update; other ranks than the owner's have no values of it."""

    row: TokenRow
    """Ids and mask, length T."""
    logp_old: torch.Tensor | None = None
    """Log-probabilities under pi_old, float32 [T]; None when the first forward gives them."""
    logp_ref: torch.Tensor | None = None
    """Log-probabilities under the reference, float32 [T]; None without a KL term."""
    entropy_old: torch.Tensor | None = None
    """Entropies under pi_old in nats, float32 [T]; None when nobody asked for them."""
    advantage: torch.Tensor | None = None
    """Advantage of each token's turn, float32 [T]; None until it is known."""
    owner: int = 0
    """Rank that trains on the row."""


TOKEN_COLUMNS = tuple(
    item.name for item in fields(ScoredRow) if item.name in {other.name for other in fields(TokenBatch)}
)
"""Fields of a scored row that a micro-batch holds padded."""


@dataclass(frozen=True, eq=False)
class MicroStep:
    """What one micro-batch did."""

    tokens: TokenBatch
    """Its tensors, detached from the graph."""
    loss: LossOutput
    """The loss and its parts."""
    sampler_logp: torch.Tensor | None
    """What the sampler said of the tokens, [B, T]; None after the first pass, or where it said nothing."""


@dataclass(frozen=True)
class StepReport:
    """One optimiser step."""

    grad_norm: float
    """Gradient norm before clipping."""
    applied: bool
    """False when the gradient was not finite and the step was left out."""


class TermReport(Protocol):
    """What an extra term did in one optimiser step: sums, which those of other steps and ranks are added to."""

    @property
    def name(self) -> str:
        """The term's loss is the metric `loss/<name>`."""
        ...

    @property
    def loss(self) -> float:
        """What it added to the loss."""
        ...

    def stats(self) -> dict[str, float]:
        """Return metrics of the sums."""
        ...

    def __add__(self, other: Self) -> Self: ...


class ExtraTerm(Protocol):
    """A loss term of one batch that acts on some of its turns, beside the policy loss.

    The updater tells it the entropies of the turns as soon as they are known, once, and then asks for its
    gradient in every optimiser step, before the gradient is clipped. All ranks make the same calls.
    """

    @property
    def located(self) -> bool:
        """Whether the entropies have been told."""
        ...

    def locate(self, entropy_R: Floats) -> object:
        """Learn the mean token entropy of each turn under the policy that produced the batch; NaN if unknown."""
        ...

    def backward(self, policy: Policy, rows: Sequence[ScoredRow]) -> TermReport | None:
        """Add the term's gradient over the rows of a whole minibatch to the policy's.

        A row is a turn in window context, a conversation in full context.

        Returns:
            What this process did; None when there was nothing to do, and then no gradient has changed.
        """
        ...


Event: TypeAlias = MicroStep | TermReport | StepReport
"""What an update tells of itself, in order."""

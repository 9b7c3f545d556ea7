"""Settings of STAPO (arXiv 2607.04963): how turns that neglect their trajectory are found and treated.

Every ablation of the paper is one setting; `trainers.stapo.outliers` and `trainers.stapo.term` say what they do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from agent_gym.core.prompts import Segment
from agent_gym.support.checks import check_choice, check_flag, check_number, check_whole
from agent_gym.support.errors import ConfigError


class EntropyKind(StrEnum):
    """The value in which a turn stands out."""

    NORMALIZED = "normalized"
    """Entropy against the turns taken in the same state, in standard deviations."""
    CENTRED = "centred"
    """Entropy against the turns taken in the same state, in nats: not divided, so that two turns suffice."""
    SHANNON = "shannon"
    """Entropy itself, in nats, over all turns of the batch."""


class MaskKind(StrEnum):
    """What the masked prompt leaves out."""

    GOAL_HISTORY = "goal+history"
    """The goal and the earlier turns."""
    GOAL = "goal"
    """The goal only."""
    HISTORY = "history"
    """The earlier turns only."""
    NONE = "none"
    """Nothing: both prompts are the same, so the trajectory-aware reward is 0."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The prompt segments that are blanked."""
        return tuple(segment for segment in (Segment.GOAL, Segment.HISTORY) if segment.value in self.value)


class PenaltyKind(StrEnum):
    """Which entropies are penalised."""

    DOUBLE = "double"
    """Under the full prompt (`beta`) and under the masked one (`gamma_s`)."""
    SINGLE = "single"
    """Under the full prompt only."""
    NONE = "none"
    """Neither."""


class Side(StrEnum):
    """On which side of its pool a turn stands out."""

    UPPER = "upper"
    """Above: less confident than is usual there."""
    BOTH = "both"
    """Above or below."""


@dataclass(frozen=True)
class StapoSettings:
    """Settings of STAPO. Strings are accepted for the enums; values are checked on construction.

    Raises:
        ConfigError: For an unknown choice or a number outside its range.
    """

    alpha: float = 0.005
    """Weight of the trajectory-aware reward: divergence of the reply's distributions with and without goal and
    history."""
    beta: float = 0.005
    """Weight of the entropy under the full prompt."""
    gamma_s: float = 0.005
    """Weight of the entropy under the masked prompt."""
    kappa: float = 1.0
    """Most divergence in nats that a token is rewarded for; above it a token has no gradient."""
    top_k: int = 0
    """0: the divergence is exact over the vocabulary. k: over the k likeliest tokens and one bucket for the rest,
    which is never more than the exact one."""
    entropy_floor: float = 0.05
    """Mean entropy of a reply in nats below which it is not penalised any more."""
    entropy: EntropyKind = EntropyKind.NORMALIZED
    """Value in which turns stand out."""
    mask: MaskKind = MaskKind.GOAL_HISTORY
    """What the masked prompt leaves out."""
    penalty: PenaltyKind = PenaltyKind.DOUBLE
    """Which entropies are penalised."""
    selective: bool = True
    """False applies the terms to every turn, outlier or not."""
    side: Side = Side.UPPER
    """Side on which a turn stands out."""
    iqr_lambda: float = 1.5
    """A turn is an outlier beyond the quartile plus this many interquartile ranges of its pool."""
    iqr_floor: float = 1e-3
    """Least interquartile range, so that a pool of equal values flags nothing."""
    min_anchor_group: int = 6
    """Turns that a state must have for theirs to be compared with each other. n values have no deviation above
    (n - 1) / sqrt(n), so few turns can never stand out; smaller groups join the pool of plain entropies. 2 is the
    paper's rule. Not read with `entropy=centred`, for which 2 suffice."""
    leave_one_out: bool = False
    """Compare a turn with the other turns of its state, itself left out."""

    def __post_init__(self) -> None:
        choices = {"entropy": EntropyKind, "mask": MaskKind, "penalty": PenaltyKind, "side": Side}
        for name, kind in choices.items():
            object.__setattr__(self, name, check_choice(f"stapo.{name}", kind, getattr(self, name)))
        for name in ("alpha", "beta", "gamma_s", "kappa", "entropy_floor", "iqr_lambda", "iqr_floor"):
            check_number(f"stapo.{name}", getattr(self, name), 0.0, math.inf)
        check_whole("stapo.top_k", self.top_k, 0)
        check_whole("stapo.min_anchor_group", self.min_anchor_group, 2)
        check_flag("stapo.selective", self.selective)
        check_flag("stapo.leave_one_out", self.leave_one_out)
        if self.iqr_floor == 0:
            raise ConfigError(
                "stapo.iqr_floor must be above 0: in a pool of equal values any rounding would stand out."
            )

    @property
    def weights(self) -> tuple[float, float, float]:
        """Weights of reward, entropy and masked entropy that are in force under `penalty`."""
        full = 0.0 if self.penalty is PenaltyKind.NONE else self.beta
        masked = self.gamma_s if self.penalty is PenaltyKind.DOUBLE else 0.0
        return self.alpha, full, masked

    @property
    def acts(self) -> bool:
        """Whether the loss has any term; without one, turns are located and logged only."""
        return any(self.weights)

    @property
    def masks(self) -> bool:
        """Whether a term reads the masked prompt."""
        reward, _, masked = self.weights
        return bool(reward or masked)

"""Behaviour cloning, and the cold start of a run that is made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent_gym.support.errors import ConfigError
from trainers.settings.schedule import Schedule
from trainers.settings.strict import STRICT


@dataclass(frozen=True, slots=True)
class CloningSettings:
    """How an expert is imitated; the defaults are those published for models of several billion weights, but for
    `format_weight`, whose default is for tiny policies."""

    epochs: int = 1
    """Passes over the rows."""
    batch_size: int = 16
    """Rows per optimiser step."""
    learning_rate: float = 1e-5
    """Peak learning rate; about 2e-3 for a tiny policy."""
    warmup: float = 0.1
    """Share of all steps in which the rate rises linearly from 0."""
    schedule: Schedule = Schedule.COSINE
    """Course of the rate after the warm-up."""
    format_weight: float = 0.3
    """Loss weight of markup and end tokens; tokens between a pair of tags weigh 1. Markup is the same in
    every reply, so that at weight 1 it drowns the few tokens that decide, for a policy that starts from nothing.
    1 is the plain loss that language models are cloned with."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm; 0 clips none."""
    max_tokens_per_microbatch: int = 16384
    """Padded tokens of one forward and backward pass; bounds memory, changes no result."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_tokens_per_microbatch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "format_weight", "weight_decay", "max_grad_norm"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not 0.0 <= self.warmup <= 1.0:
            raise ConfigError(f"warmup is a share of all steps in [0, 1], got {self.warmup}")

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate of 0-based `step` out of `total`."""
        rising = math.ceil(self.warmup * total)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        done = (step - rising) / max(1, total - rising)
        return self.learning_rate * self.schedule.factor(done)


@dataclass(frozen=True)
class ColdStartSettings(CloningSettings):
    """Imitation of the environment's oracle before reinforcement learning."""

    __pydantic_config__ = STRICT

    episodes: int = 0
    """Oracle episodes on training tasks; 0 skips cloning."""
    noise: float = 0.0
    """Chance that the demonstrator takes a random admissible action in place of the oracle's. Demonstrations by
    people are imperfect too; what is wrong with them is what reinforcement learning can mend."""
    min_score: float = 0.9
    """Episodes that score less are left out."""

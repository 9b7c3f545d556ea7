"""Optimisation: rate, schedule, minibatches, memory."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gym.support.errors import ConfigError
from trainers.settings.schedule import Schedule
from trainers.settings.strict import STRICT


@dataclass(frozen=True)
class OptimSettings:
    """Optimisation."""

    __pydantic_config__ = STRICT

    learning_rate: float = 1e-6
    """AdamW learning rate after the warm-up."""
    schedule: Schedule = Schedule.CONSTANT
    """Course of the rate over the iterations: constant (the published recipes), or linear or cosine down to 0,
    which lets the noise of large steps settle at the end."""
    warmup_steps: int = 0
    """Optimiser steps over which the learning rate rises linearly."""
    weight_decay: float = 0.01
    """AdamW weight decay."""
    beta1: float = 0.9
    """AdamW's decay of the mean gradient, in [0, 1)."""
    beta2: float = 0.999
    """AdamW's decay of the mean squared gradient, in [0, 1)."""
    grad_clip: float = 1.0
    """Gradient norm is clipped to this; 0 clips nothing, and the norm is logged all the same."""
    passes: int = 1
    """Passes over each batch."""
    minibatch_rows: int = 0
    """Most rows per optimiser step; the batch is cut into as equal parts as can be, and 0 takes it whole.
    Trajectory-level ratios keep an episode's rows together, so a minibatch may then be a little larger."""
    max_tokens_per_microbatch: int = 16_384
    """Tokens per forward and backward pass, padding included: bounds memory, never changes results. Rows of
    like length share a pass."""
    share_equal_rows: bool = True
    """Rows of equal tokens go through the model once, which changes results by rounding only. Groups that
    start from one state hold many where prompts are short."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time, equal results."""

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")

"""Evaluation before, during and after training."""

from __future__ import annotations

from dataclasses import dataclass

from trainers.settings.sampling import SamplingSettings
from trainers.settings.strict import STRICT


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation before, during and after training."""

    __pydantic_config__ = STRICT

    every: int = 0
    """Iterations between evaluations; 0 evaluates before and after only."""
    episodes: int = 200
    """Test tasks played during training."""
    final_episodes: int = 0
    """Test tasks played before and after training; 0 is the same as `episodes`."""
    pool: bool = False
    """Also evaluate on the training pool (needs `env.pool_size`)."""
    temperature: float = 1.0
    """Sampling temperature."""
    top_p: float = 1.0
    """Nucleus sampling, evaluation only."""
    top_k: int = 0
    """Top-k sampling, evaluation only; 0 is off."""
    greedy: bool = False
    """Take the most likely token instead of sampling."""

    def __post_init__(self) -> None:
        self.sampling()

    def sampling(self, max_reply_tokens: int = 1) -> SamplingSettings:
        """Return how evaluation replies of a length are drawn.

        Raises:
            ConfigError: They cannot be drawn so.
        """
        return SamplingSettings(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            max_reply_tokens=max_reply_tokens,
            greedy=self.greedy,
        )

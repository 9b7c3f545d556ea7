"""Settings of low-rank adapters; apart from them, so that reading settings does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gym.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Size and place of the adapters."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed

    rank: int = 16
    """Inner dimension."""
    alpha: float = 32.0
    """The adapter's output is scaled by alpha / rank."""
    targets: str | tuple[str, ...] = "all-linear"
    """Names of the linear layers that get adapters; "all-linear" is every one but the output head."""
    seed: int = 0
    """Seed of the initial weights."""

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0.0:
            raise ConfigError(f"rank and alpha must be positive, got rank={self.rank}, alpha={self.alpha}")

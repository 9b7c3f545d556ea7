"""Sizes of the embedded policy; apart from it, so that reading settings does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gym.support.errors import ConfigError

END = "<|end|>"
PAD = "<|pad|>"
ROLES = ("system", "user", "assistant", "tool")
SPECIAL = (PAD, END, *(f"<|{role}|>" for role in ROLES))
"""Markers that are tokens of their own in every vocabulary."""
BYTES = 256


@dataclass(frozen=True, slots=True)
class TinySpec:
    """Size of a tiny policy; the defaults give about 0.13 M weights."""

    hidden: int = 64
    """Width of the residual stream; a multiple of `heads`, with an even head size."""
    layers: int = 2
    """Transformer blocks."""
    heads: int = 4
    """Attention heads."""
    feed_forward: int = 4
    """Width of the gated feed-forward layer as a multiple of `hidden`, split over its two input matrices."""
    vocab_size: int = 512
    """Upper limit on tokens: 256 bytes, markers, markup and learned merges."""
    max_positions: int = 4096
    """Longest context."""
    markup: tuple[str, ...] = ("<action>", "</action>", "<think>", "</think>")
    """Reply tags that are one token each."""
    seed: int = 0
    """Seed of the initial weights."""

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "feed_forward", "max_positions"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.hidden % self.heads or (self.hidden // self.heads) % 2:
            raise ConfigError(
                f"hidden must be a multiple of heads with an even head size, got hidden={self.hidden}, "
                f"heads={self.heads}"
            )
        least = BYTES + len(SPECIAL) + len(self.markup)
        if self.vocab_size < least:
            raise ConfigError(f"vocab_size must be at least {least} (bytes and markers), got {self.vocab_size}")

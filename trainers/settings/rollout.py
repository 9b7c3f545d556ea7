"""How episodes are sampled for training."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainers.settings.sampling import SamplingSettings
from trainers.settings.strict import STRICT


class SamplerKind(StrEnum):
    """Engine that draws replies."""

    HF = "hf"
    """In the trainer's process, decoding in step."""
    CONTINUOUS = "continuous"
    """In the trainer's process, with transformers' continuous batching; for CUDA."""
    VLLM = "vllm"
    """vLLM with weights of its own, handed over after every update; extra `[vllm]`."""


@dataclass(frozen=True)
class RolloutSettings:
    """Sampling of episodes."""

    __pydantic_config__ = STRICT

    groups: int = 16
    """Tasks per iteration."""
    group_size: int = 8
    """Episodes per task."""
    temperature: float = 1.0
    """Sampling temperature; log-probabilities are evaluated at it."""
    max_reply_tokens: int = 512
    """Longest reply, per turn."""
    max_context_tokens: int = 2048
    """Longest prompt and reply together (window) or conversation (full)."""
    max_parallel: int = 256
    """Most episodes running at once."""
    sampler: SamplerKind = SamplerKind.HF
    """Engine that draws the replies: hf, continuous (for CUDA) or vllm (extra `[vllm]`)."""
    sampler_options: dict[str, Any] = field(default_factory=dict)
    """Options of the engine as it documents them (vllm: gpu_memory_utilization, ...; continuous: num_blocks,
    ...); hf has none."""
    importance_correction: bool = False
    """Weigh each token by what the trainer's policy says of it against what the sampler said, where the engine
    computes otherwise than the trainer (truncated importance sampling)."""
    importance_cap: float = 2.0
    """Largest such weight."""

    def __post_init__(self) -> None:
        self.sampling()

    def sampling(self) -> SamplingSettings:
        """Return how training replies are drawn: from the whole distribution.

        Raises:
            ConfigError: They cannot be drawn so.
        """
        return SamplingSettings(temperature=self.temperature, max_reply_tokens=self.max_reply_tokens).for_training()

"""What a sampler is: prompts in, sampled ids with their log-probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_gym.core.info import FinishReason
from agent_gym.support.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from trainers.policy.policy import Policy

    Draws = torch.Generator | Sequence[torch.Generator]


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How replies are drawn."""

    temperature: float = 1.0
    """Divides the logits; recorded log-probabilities are those of the divided logits."""
    top_p: float = 1.0
    """Keep the likeliest tokens that together reach this probability; 1 keeps all. Evaluation only."""
    top_k: int = 0
    """Keep this many likeliest tokens; 0 keeps all. Evaluation only."""
    max_reply_tokens: int = 512
    """Longest reply, the end token included; a longer one is cut with finish reason `max_tokens`."""
    greedy: bool = False
    """Take the likeliest token (temperature then only scales the recorded log-probabilities)."""
    record_entropy: bool = False
    """Also record the entropy of each distribution drawn from, before truncation."""

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < float("inf"):
            raise ConfigError(
                f"temperature must be a positive number, got {self.temperature}; "
                "in evaluation, greedy=true takes the likeliest token"
            )
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0:
            raise ConfigError(f"top_k must be 0 (off) or positive, got {self.top_k}")
        if self.max_reply_tokens < 1:
            raise ConfigError(f"max_reply_tokens must be at least 1, got {self.max_reply_tokens}")

    def for_training(self) -> SamplingSettings:
        """Return self if replies drawn this way may be trained on.

        Importance ratios compare full distributions; a token drawn from a truncated one has another
        probability than the one recorded, which biases every ratio.

        Raises:
            ConfigError: The distribution is truncated (`top_p` < 1, `top_k` > 0) or greedy.
        """
        for name, value, neutral in (
            ("top_p", self.top_p, 1.0),
            ("top_k", self.top_k, 0),
            ("greedy", self.greedy, False),
        ):
            if value != neutral:
                raise ConfigError(
                    f"training needs samples of the full distribution: set {name}={neutral} (got {value}); "
                    f"{name} may be used for evaluation"
                )
        return self


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled reply, exactly as drawn.

    Attributes:
        ids: Sampled ids, the end token included when it was sampled.
        logprobs: Log-probability of each id at the sampling temperature, before truncation.
        finish_reason: Whether the model ended the reply or the limit cut it.
        entropies: Entropy in nats at each id, before truncation; None unless asked for.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    entropies: tuple[float, ...] | None = None


class Sampler(Protocol):
    """Draws replies from a policy. It keeps no random state between calls."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        settings: SamplingSettings,
        generator: Draws | None = None,
    ) -> list[Sample]:
        """Draw one reply per prompt, in the order of `prompts`.

        Args:
            prompts: Prompt ids; lengths may differ, equal prompts are independent draws.
            settings: How to draw.
            generator: CPU generator that all randomness comes from, or one a prompt, so that a reply does not
                depend on the prompts it is batched with; not needed when greedy.
        """
        ...

    def sync(self, policy: Policy) -> None:
        """Draw from the current weights of `policy` from now on."""
        ...

    def close(self) -> None:
        """Give back what outlives the sampler, such as files; it draws no more. A second call does nothing."""
        ...

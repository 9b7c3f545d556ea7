"""How replies are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gym.support.errors import ConfigError


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

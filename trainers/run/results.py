"""What an evaluation of a run found, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        split: Split that was played.
        n_ok: Episodes played.
        n_error: Episodes in which the environment or a tool behind it failed; not counted as failures of the
            policy.
        success: Share of solved episodes.
        score: Mean task score.
        reward: Mean episode return.
        turns: Mean turns.
        valid_format: Share of replies that follow the grammar.
        valid_action: Share of replies whose action was accepted.
        by_type: Success by task type.
    """

    split: str
    n_ok: int
    n_error: int
    success: float
    score: float
    reward: float
    turns: float
    valid_format: float
    valid_action: float
    by_type: dict[str, float]

    @property
    def standard_error(self) -> float:
        """Standard error of the success rate."""
        return (self.success * (1 - self.success) / self.n_ok) ** 0.5 if self.n_ok else 0.0

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the numbers as metrics named `<prefix>/...`."""
        names = ("success", "score", "reward", "turns", "valid_format", "valid_action")
        return {f"{prefix}/{name}": float(getattr(self, name)) for name in names}

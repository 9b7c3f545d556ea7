"""Rewards of an episode's end."""

from __future__ import annotations

from enum import StrEnum


class RewardKind(StrEnum):
    """Which reward the answer earns."""

    EM = "em"
    """1 for an exact match, else 0."""
    FORMAT = "format"
    """Search-R1's variant: a correct answer earns 1, 0.8 after an invalid turn; a wrong one 0.2, 0.1 after an
    invalid turn; no answer earns 0."""
    FORMAT_RETRIEVAL = "format_retrieval"
    """As `format`, and 0.1 more for a wrong answer without an invalid turn when a retrieved passage holds a gold
    answer. The only reward that looks at retrieved text."""


def answer_reward(kind: RewardKind, *, correct: bool, well_formed: bool, retrieved_gold: bool) -> float:
    """Return the reward of an answer.

    Args:
        kind: Scheme.
        correct: Whether the answer is an exact match.
        well_formed: Whether no turn of the episode was invalid.
        retrieved_gold: Whether a gold answer stands in a retrieved passage.
    """
    if kind is RewardKind.EM:
        return float(correct)
    if correct:
        return 1.0 if well_formed else 0.8
    if not well_formed:
        return 0.1
    bonus = kind is RewardKind.FORMAT_RETRIEVAL and retrieved_gold
    return 0.3 if bonus else 0.2

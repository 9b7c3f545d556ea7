"""Estimators that know the return of the episode only."""

from __future__ import annotations

from trainers.settings.algorithm import AlgorithmConfig
from trainers.update.estimators.base import EstimatorRows, Parts, episode_only
from trainers.update.estimators.statistics import by_nothing, by_others, centre, divisor_of


def reinforce(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """The return itself (Williams 1992)."""
    return episode_only(rows.score)


def grpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """Return against the mean of the group, by its deviation (arXiv 2402.03300)."""
    return episode_only(centre(rows.score, rows.table.group, rows.votes, divisor_of(config.normalisation)))


def dr_grpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """Return against the mean of the group, not divided (arXiv 2503.20783)."""
    return episode_only(centre(rows.score, rows.table.group, rows.votes, by_nothing))


def rloo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """Return against the mean of the others (arXiv 2402.14740)."""
    return episode_only(centre(rows.score, rows.table.group, rows.votes, by_others))

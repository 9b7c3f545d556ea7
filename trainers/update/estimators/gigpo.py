"""GiGPO (arXiv 2505.10978): the episode against its group, and each turn against those taken in the same state."""

from __future__ import annotations

import numpy as np

from trainers.settings.algorithm import AlgorithmConfig
from trainers.update.anchors import step_groups
from trainers.update.estimators.base import EstimatorRows, Parts, first_visits
from trainers.update.estimators.episodes import grpo
from trainers.update.estimators.statistics import Divisor, by_std, centre, divisor_of
from trainers.update.turn_table import Floats, Ints, step_returns


def gigpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """The advantage of `grpo`, and a step advantage inside groups of equal states."""
    groups = chosen_visits(rows, step_groups(rows.table.group, rows.table.anchor, config.anchor_similarity), config)
    return Parts(grpo(rows, config).episode, step_advantage(rows, groups, config), groups)


def step_advantage(rows: EstimatorRows, groups: Ints, config: AlgorithmConfig, std: Divisor = by_std) -> Floats:
    """Step return of each row against its step group, shape [R]; every visit in company has a vote.

    Args:
        rows: The rows.
        groups: Step group of each row, shape [R]; negative for none.
        config: Reads `gamma` and `normalisation`.
        std: Divisor of `mean_std`.
    """
    values = step_returns(rows.table, config.gamma) - rows.penalty
    return centre(values, groups, rows.company, divisor_of(config.normalisation, std))


def chosen_visits(rows: EstimatorRows, groups: Ints, config: AlgorithmConfig) -> Ints:
    """Return the step groups without later visits, where `unique_visits` asks for that; -1 for none."""
    if not config.unique_visits:
        return groups
    return np.where(first_visits(rows.table.episode, groups), groups, -1)

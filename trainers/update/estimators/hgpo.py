"""HGPO (arXiv 2602.22817): step groups nested by how much of the past two turns share.

Depth d groups the turns of a task group with the same state and the same d states before it. `hgpo_base` says what
becomes of the advantage of the episode, and with it which form is computed:

- `none`, the released estimator (recipe/hgpo/core_hgpo.py of the public code): a turn with fewer than d turns
  before it is in no group of depth d; deviations are biased; an estimate that is exactly 0 leaves the weights;
  A = sum over d of w_d A_d / (sum over d of w_d + 1e-6) with w_d = (d + 2)^alpha is the whole advantage.
- `grouped`, the release's `base_group`: the same with the advantage of `grpo` as one more item of weight 1.
- `added`, a form of this package: that of `grpo` plus omega times the mean of the A_d with w_d = (d + 1)^alpha over
  the depths with company; unbiased deviations; before the first turn stands nothing, which equals nothing only.
"""

from __future__ import annotations

import numpy as np

from trainers.settings.algorithm import AlgorithmConfig, HgpoBase
from trainers.update.anchors import step_groups
from trainers.update.estimators.base import EstimatorRows, Parts, first_rows
from trainers.update.estimators.episodes import grpo
from trainers.update.estimators.gigpo import chosen_visits, step_advantage
from trainers.update.estimators.statistics import EPS, by_biased_std
from trainers.update.turn_table import Bools, Floats, Ints


def hgpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """The form that `hgpo_base` names; without `added` the step part is the whole advantage."""
    nested = _nested_groups(rows, config, numbered_starts=config.hgpo_base is HgpoBase.ADDED)
    if config.hgpo_base is HgpoBase.ADDED:
        return Parts(grpo(rows, config).episode, _over_company(rows, nested, config), nested[0])
    whole = _over_estimates(rows, nested, config)
    return Parts(np.zeros(len(whole)), whole, nested[0])


def _over_estimates(rows: EstimatorRows, nested: list[Ints], config: AlgorithmConfig) -> Floats:
    """Mean of the estimates that are not exactly 0, weighted 2 : 3 : 4 : ... at alpha 1."""
    items = [
        (step_advantage(rows, groups, config, by_biased_std), (depth + 2.0) ** config.hgpo_alpha)
        for depth, groups in enumerate(nested)
    ]
    if config.hgpo_base is HgpoBase.GROUPED:
        items.insert(0, (grpo(rows, config).episode, 1.0))
    total, weights = np.zeros(len(rows.table)), np.zeros(len(rows.table))
    for values, weight in items:
        total += weight * values
        weights += np.where(values != 0.0, weight, 0.0)
    return np.asarray(total / (weights + EPS), dtype=np.float64)


def _over_company(rows: EstimatorRows, nested: list[Ints], config: AlgorithmConfig) -> Floats:
    """Mean of the estimates of the groups with company, weighted 1 : 2 : 3 : ... at alpha 1."""
    total, weights = np.zeros(len(rows.table)), np.zeros(len(rows.table))
    for depth, groups in enumerate(nested):
        weight = np.where(_has_company(groups), (depth + 1.0) ** config.hgpo_alpha, 0.0)
        total += weight * step_advantage(rows, groups, config)
        weights += weight
    return np.divide(total, weights, out=np.zeros(len(total)), where=weights > 0)


def _nested_groups(rows: EstimatorRows, config: AlgorithmConfig, numbered_starts: bool) -> list[Ints]:
    """Step groups of the depths 0 to `hgpo_depth`, -1 for none.

    Args:
        rows: The rows.
        config: Settings.
        numbered_starts: Whether the lack of a past is a past of its own, which turns may share.
    """
    table = rows.table
    groups = earlier = step_groups(table.group, table.anchor, config.anchor_similarity)
    starts = first_rows(table.episode)
    nested = [chosen_visits(rows, groups, config)]
    for _ in range(config.hgpo_depth):
        # What stands one turn further back: the same column again, one row further up.
        earlier = np.where(starts, -1, np.roll(earlier, 1))
        groups = _joint(groups, earlier)
        known = groups if numbered_starts else np.where(earlier < 0, -1, groups)
        nested.append(chosen_visits(rows, known, config))
    return nested


def _joint(groups: Ints, others: Ints) -> Ints:
    """Number the pairs of two labels."""
    pairs = np.stack([groups, others])
    return np.asarray(np.unique(pairs, axis=1, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _has_company(groups: Ints) -> Bools:
    """Whether another row has the same non-negative label."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.asarray((counts[inverse] > 1) & (groups >= 0), dtype=np.bool_)

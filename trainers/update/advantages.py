"""Advantages of turn rows: from rewards, penalties and anchor states to one number per turn.

Rows may come in any order: they are put into (group, episode, turn) order first, so the result does not
depend on it, not even in the last bit. To add an estimator, write one function of the type `Estimator` in
`trainers/update/estimators` and list it in `ESTIMATORS`.

Departures from the public reference code: an episode alone in its group gets 0 instead of its raw score, whatever
its turns were penalised by, and its turns are not compared with each other; a group whose
values spread by less than 1e-6 gets 0 instead of rounding noise divided by eps; an episode with a non-finite
reward is dropped and counted instead of spoiling its group; `episode` statistics exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainers.settings.algorithm import UNIFORM_FLOOR, AdvantageKind, AlgorithmConfig, Statistics
from trainers.update.anchors import anchor_stats, step_groups
from trainers.update.estimators.base import Estimator, EstimatorRows, estimator_rows
from trainers.update.estimators.entropy import empg, modulation
from trainers.update.estimators.episodes import dr_grpo, grpo, reinforce, rloo
from trainers.update.estimators.g2po import g2po
from trainers.update.estimators.gigpo import gigpo
from trainers.update.estimators.hgpo import hgpo
from trainers.update.estimators.statistics import EPS
from trainers.update.turn_table import Bools, Floats, Ints, RowTable, episode_returns


@dataclass(frozen=True, eq=False)
class Advantages:
    """Advantages of R rows, in the order of the table they were computed from."""

    total: Floats
    """What the loss uses: episode + omega * step, weighted by entropy, whitened and penalised as configured.
    0 where not kept."""
    episode: Floats
    """The episode part, before weighting, whitening and the penalty of `episode` statistics."""
    step: Floats
    """The step part, before omega; 0 for estimators without one."""
    keep: Bools
    """False for rows of dropped episodes: they take no part in the loss."""
    stats: dict[str, float]
    """Metrics, named as in `trainers.run.metrics.METRICS`."""


def compute_advantages(table: RowTable, config: AlgorithmConfig) -> Advantages:
    """Compute the advantage of every turn row.

    Args:
        table: The rows of one batch; whole episodes and whole groups.
        config: Reads the advantage settings and `statistics`; the loss settings do not matter.

    Returns:
        Advantages in the order of the table. Episodes with a non-finite return get 0 and `keep` False.

    Raises:
        ConfigError: The settings read entropies and the table has none.
    """
    order = np.lexsort((table.turn, table.episode, table.group))
    ordered = table.take(order)
    returns = episode_returns(ordered)
    finite = np.isfinite(returns)
    rows = estimator_rows(ordered.take(finite), returns[finite], config.statistics)
    parts = ESTIMATORS[config.advantage](rows, config)
    total = parts.episode + config.omega * parts.step
    if config.entropy_weight:
        total = total * modulation(rows.table, config)
    if config.whiten or config.advantage in WHITENED:
        total = whiten(total, rows.table.n_tokens)
    if config.statistics is Statistics.EPISODE:
        total = total - rows.table.penalty
    places = order[finite]
    keep = np.zeros(len(table), dtype=np.bool_)
    keep[places] = True
    stats = _stats(rows, returns[finite], total, parts.step_group)
    stats["groups/dropped_episodes"] = float(len(np.unique(ordered.episode[~finite])))
    return Advantages(
        total=_scatter(total, places, len(table)),
        episode=_scatter(parts.episode, places, len(table)),
        step=_scatter(parts.step, places, len(table)),
        keep=keep,
        stats=stats,
    )


def whiten(values: Floats, weights: Ints) -> Floats:
    """Shift and scale to mean 0 and unbiased std 1, each row counted once per sampled token.

    The shift moves rows of uniform groups off 0 too. Equal values, or fewer than two tokens, give 0.

    Args:
        values: Shape [R].
        weights: Token count of each row, shape [R].
    """
    total = int(weights.sum())
    counted = values[weights > 0]
    if total < 2 or np.ptp(counted) < UNIFORM_FLOOR:
        return np.zeros(len(values))
    mean = float((weights * values).sum()) / total
    variance = float((weights * (values - mean) ** 2).sum()) / (total - 1)
    return np.asarray((values - mean) / (variance**0.5 + EPS), dtype=np.float64)


ESTIMATORS: dict[AdvantageKind, Estimator] = {
    AdvantageKind.REINFORCE: reinforce,
    AdvantageKind.GRPO: grpo,
    AdvantageKind.DR_GRPO: dr_grpo,
    AdvantageKind.RLOO: rloo,
    AdvantageKind.REINFORCE_PP_BASELINE: dr_grpo,
    AdvantageKind.GIGPO: gigpo,
    AdvantageKind.EMPG: empg,
    AdvantageKind.HGPO: hgpo,
    AdvantageKind.G2PO: g2po,
}
"""The estimator of each kind; `compute_advantages` adds what all share (order, dropping, weighting, whitening)."""

WHITENED = frozenset({AdvantageKind.REINFORCE_PP_BASELINE})
"""Kinds whose definition includes whitening over the tokens of the batch."""


def _scatter(values: Floats, places: Ints, length: int) -> Floats:
    result = np.zeros(length)
    result[places] = values
    return result


def _stats(rows: EstimatorRows, returns: Floats, total: Floats, groups: Ints | None) -> dict[str, float]:
    table = rows.table
    anchors = anchor_stats(step_groups(table.group, table.anchor) if groups is None else groups)
    owners = np.unique(table.group)
    spread = [float(np.ptp(returns[table.group == owner])) for owner in owners]
    uniform = sum(value < UNIFORM_FLOOR for value in spread)
    return {
        "advantage/mean": float(total.mean()) if len(total) else 0.0,
        "advantage/min": float(total.min(initial=np.inf)) if len(total) else 0.0,
        "advantage/max": float(total.max(initial=-np.inf)) if len(total) else 0.0,
        "groups/uniform_share": uniform / len(owners) if len(owners) else 0.0,
        "groups/anchor_mean_size": anchors.mean_size,
        "groups/anchor_singleton_share": anchors.singleton_share,
    }

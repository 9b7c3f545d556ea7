"""Advantages of turn rows: from rewards, penalties and anchor states to one number per turn.

Rows may come in any order: they are put into (group, episode, turn) order first, so the result does not
depend on it, not even in the last bit. To add an estimator, write one function of the type `Estimator` and
list it in `ESTIMATORS`.

Departures from the public reference code: a group of one gets 0 instead of its raw score; a group whose
values spread by less than 1e-6 gets 0 instead of rounding noise divided by eps; an episode with a non-finite
reward is dropped and counted instead of spoiling its group; `episode` statistics exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import UNIFORM_FLOOR, AdvantageKind, AlgorithmConfig, Normalisation, Statistics
from trainers.update.anchors import anchor_stats, step_groups
from trainers.update.turn_table import Bools, Floats, Ints, RowTable, episode_returns, step_returns

__all__ = [
    "EPS",
    "ESTIMATORS",
    "WHITENED",
    "Advantages",
    "Estimator",
    "EstimatorRows",
    "Parts",
    "RowTable",
    "by_nothing",
    "by_others",
    "by_std",
    "centre",
    "compute_advantages",
    "whiten",
]

EPS = 1e-6
"""Added to every standard deviation."""


@dataclass(frozen=True, eq=False)
class Advantages:
    """Advantages of R rows, in the order of the table they were computed from."""

    total: Floats
    """What the loss uses: episode + omega * step, whitened and penalised as configured. 0 where not kept."""
    episode: Floats
    """The episode part, before whitening and before the penalty of `episode` statistics."""
    step: Floats
    """The step part, before omega; 0 for estimators without one."""
    keep: Bools
    """False for rows of dropped episodes: they take no part in the loss."""
    stats: dict[str, float]
    """Metrics, named as in `trainers.run.metrics.METRICS`."""


@dataclass(frozen=True, eq=False)
class EstimatorRows:
    """What an estimator sees: the rows of finite episodes in (group, episode, turn) order."""

    table: RowTable
    """The rows, shape [R]."""
    score: Floats
    """Episode return of each row, shape [R], lowered by the row's penalty under `turn` statistics."""
    votes: Bools
    """Rows that count in group statistics: all, or the first row of each episode, shape [R]."""
    penalty: Floats
    """Penalty to take from a step return before normalisation: 0 under `episode` statistics, shape [R]."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What an estimator returns, in the order of its rows."""

    episode: Floats
    step: Floats
    step_group: Ints | None = None
    """Step group of each row (-1 for none) where the estimator formed them, for the statistics."""


Estimator = Callable[[EstimatorRows, AlgorithmConfig], Parts]
Divisor = Callable[[Floats], float]


def compute_advantages(table: RowTable, config: AlgorithmConfig) -> Advantages:
    """Compute the advantage of every turn row.

    Args:
        table: The rows of one batch; whole episodes and whole groups.
        config: Reads the advantage settings and `statistics`; the loss settings do not matter.

    Returns:
        Advantages in the order of the table. Episodes with a non-finite return get 0 and `keep` False.
    """
    order = np.lexsort((table.turn, table.episode, table.group))
    ordered = table.take(order)
    returns = episode_returns(ordered)
    finite = np.isfinite(returns)
    rows = _estimator_rows(ordered.take(finite), returns[finite], config.statistics)
    parts = ESTIMATORS[config.advantage](rows, config)
    total = parts.episode + config.omega * parts.step
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


def centre(values: Floats, group: Ints, votes: Bools, divisor: Divisor) -> Floats:
    """Subtract the mean of each group's votes and divide.

    Args:
        values: Shape [R].
        group: Group of each row, shape [R]; negative for rows in no group, which get 0.
        votes: Rows that count in mean, spread and divisor, shape [R].
        divisor: From the votes of one group (two or more, not uniform) to a positive number.

    Returns:
        Shape [R]. 0 in groups with fewer than two votes or a spread below `UNIFORM_FLOOR`.
    """
    result = np.zeros(len(values))
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order])) + 1
    for members in np.split(order, starts):
        if not len(members) or group[members[0]] < 0:
            continue
        voters = values[members][votes[members]]
        if len(voters) < 2 or np.ptp(voters) < UNIFORM_FLOOR:
            continue
        result[members] = (values[members] - voters.mean()) / divisor(voters)
    return result


def by_nothing(votes: Floats) -> float:
    """Divisor of `dr_grpo` and of `mean` normalisation."""
    return 1.0


def by_std(votes: Floats) -> float:
    """Divisor of `grpo`: unbiased standard deviation plus `EPS`."""
    return float(votes.std(ddof=1)) + EPS


def by_others(votes: Floats) -> float:
    """Divisor of `rloo`: turns a distance to the mean of all n into that to the mean of the others."""
    return (len(votes) - 1) / len(votes)


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


def _reinforce(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    return _episode_only(rows.score)


def _grpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    return _episode_only(centre(rows.score, rows.table.group, rows.votes, _DIVISORS[config.normalisation]))


def _dr_grpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    return _episode_only(centre(rows.score, rows.table.group, rows.votes, by_nothing))


def _rloo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    return _episode_only(centre(rows.score, rows.table.group, rows.votes, by_others))


def _gigpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    groups = step_groups(rows.table.group, rows.table.anchor, config.anchor_similarity)
    if config.unique_visits:
        groups = np.where(_first_visits(rows.table.episode, groups), groups, -1)
    return Parts(_grpo(rows, config).episode, _step_advantage(rows, groups, config), groups)


def _hgpo(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """Nested step groups (arXiv 2602.22817): depth d shares the state and the d states before it.

    The paper weighs the depths adaptively in favour of the deeper ones; the weights here are (d + 1)^alpha over
    the depths at which a row is not alone. Before the first turn stands nothing, which equals nothing only.
    """
    table = rows.table
    states = step_groups(table.group, table.anchor, config.anchor_similarity)
    groups, earlier, shallowest = states, states, states
    starts = _first_rows(table.episode)
    total, weights = np.zeros(len(table)), np.zeros(len(table))
    for depth in range(config.hgpo_depth + 1):
        if depth:
            # What stands `depth` turns back: the same column again, one row further up.
            earlier = np.where(starts, -1, np.roll(earlier, 1))
            groups = _joint(groups, earlier)
        chosen = np.where(_first_visits(table.episode, groups), groups, -1) if config.unique_visits else groups
        shallowest = chosen if depth == 0 else shallowest
        weight = np.where(_has_company(chosen), (depth + 1.0) ** config.hgpo_alpha, 0.0)
        total += weight * _step_advantage(rows, chosen, config)
        weights += weight
    step = np.divide(total, weights, out=np.zeros(len(table)), where=weights > 0)
    return Parts(_grpo(rows, config).episode, step, shallowest)


def _empg(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """Entropy-modulated advantage (arXiv 2509.09265).

    With h the entropies scaled to [0, 1] over the batch: A = g A_grpo + zeta f(h of the next turn), minus the
    mean over rows; g = exp(-k h) over its mean, f = exp(-k' h), 0 at the last turn. A reply without a token has
    no entropy: its weight is 1 and the turn before it gets no bonus.
    """
    entropy = rows.table.entropy
    if entropy is None:
        raise ConfigError("advantage 'empg' needs the entropy of each turn, got a table without that column.")
    if not len(entropy):
        return _episode_only(rows.score)
    known = np.isfinite(entropy)
    h = np.zeros(len(entropy))
    if known.any() and np.ptp(entropy[known]) >= UNIFORM_FLOOR:
        h[known] = (entropy[known] - entropy[known].min()) / np.ptp(entropy[known])
    confidence = np.exp(-config.empg_k * h)
    weight = np.where(known, confidence / (confidence[known].mean() if known.any() else 1.0), 1.0)
    bonus = np.where(known, np.exp(-config.empg_k_prime * h), 0.0)
    following = np.append(np.where(_first_rows(rows.table.episode), 0.0, bonus)[1:], 0.0)
    total = weight * _grpo(rows, config).episode + config.empg_zeta * following
    return _episode_only(total - total.mean())


def _step_advantage(rows: EstimatorRows, groups: Ints, config: AlgorithmConfig) -> Floats:
    """Step return of each row against its step group, shape [R]; every row of a group has a vote."""
    values = step_returns(rows.table, config.gamma) - rows.penalty
    everyone = np.ones(len(values), dtype=np.bool_)
    return centre(values, groups, everyone, _DIVISORS[config.normalisation])


_DIVISORS: dict[Normalisation, Divisor] = {Normalisation.MEAN: by_nothing, Normalisation.MEAN_STD: by_std}

ESTIMATORS: dict[AdvantageKind, Estimator] = {
    AdvantageKind.REINFORCE: _reinforce,
    AdvantageKind.GRPO: _grpo,
    AdvantageKind.DR_GRPO: _dr_grpo,
    AdvantageKind.RLOO: _rloo,
    AdvantageKind.REINFORCE_PP_BASELINE: _dr_grpo,
    AdvantageKind.GIGPO: _gigpo,
    AdvantageKind.EMPG: _empg,
    AdvantageKind.HGPO: _hgpo,
}
"""The estimator of each kind; `compute_advantages` adds what all share (order, dropping, whitening)."""

WHITENED = frozenset({AdvantageKind.REINFORCE_PP_BASELINE})
"""Kinds whose definition includes whitening over the tokens of the batch."""


def _episode_only(values: Floats) -> Parts:
    return Parts(episode=values, step=np.zeros(len(values)))


def _estimator_rows(table: RowTable, returns: Floats, statistics: Statistics) -> EstimatorRows:
    if statistics is Statistics.TURN:
        everyone = np.ones(len(table), dtype=np.bool_)
        return EstimatorRows(table, returns - table.penalty, everyone, table.penalty)
    # Penalties of single replies must not shift the baseline of whole episodes, and a row in a group where
    # everything fails must still feel its own: they are taken from the final advantage instead.
    return EstimatorRows(table, returns, _first_rows(table.episode), np.zeros(len(table)))


def _first_rows(episode: Ints) -> Bools:
    first = np.zeros(len(episode), dtype=np.bool_)
    first[np.unique(episode, return_index=True)[1]] = True
    return first


def _first_visits(episode: Ints, groups: Ints) -> Bools:
    first = np.zeros(len(episode), dtype=np.bool_)
    first[np.unique(np.stack([episode, groups]), axis=1, return_index=True)[1]] = True
    return first


def _joint(groups: Ints, others: Ints) -> Ints:
    """Number the pairs of two labels."""
    pairs = np.stack([groups, others])
    return np.asarray(np.unique(pairs, axis=1, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _has_company(groups: Ints) -> Bools:
    """Whether another row has the same non-negative label."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.asarray((counts[inverse] > 1) & (groups >= 0), dtype=np.bool_)


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

"""Advantages that depend on how sure the policy was of its reply.

A reply's weight falls with its mean token entropy H under the policy that sampled it:

    h = (H - min) / (max - min)             over a set of turns
    w = exp(-k h) / mean of exp(-k h)       over the same set

EMPG (arXiv 2509.09265) weighs the advantage of `grpo` so, over the batch, and adds a bonus. AEM (arXiv 2605.00425)
weighs the advantage of any estimator and adds nothing.
"""

from __future__ import annotations

import numpy as np

from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import UNIFORM_ENTROPY, UNIFORM_FLOOR, AlgorithmConfig, EntropyScope
from trainers.update.estimators.base import EstimatorRows, Parts, episode_only, first_rows
from trainers.update.estimators.episodes import grpo
from trainers.update.turn_table import Bools, Floats, Ints, RowTable


def empg(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """Entropy-modulated advantage (arXiv 2509.09265).

    A = w A_grpo + zeta f(h of the next turn), minus the mean over rows; f = exp(-k' h), 0 at the last turn. A reply
    without a token has no entropy: its weight is 1 and the turn before it gets no bonus.

    Raises:
        ConfigError: The table has no entropies.
    """
    entropy = _entropies(rows.table, "advantage 'empg'")
    if not len(entropy):
        return episode_only(rows.score)
    known = np.isfinite(entropy)
    h = _scaled(entropy, known, UNIFORM_FLOOR)
    bonus = np.where(known, np.exp(-config.empg_k_prime * h), 0.0)
    following = np.append(np.where(first_rows(rows.table.episode), 0.0, bonus)[1:], 0.0)
    total = _weights(h, known, config.empg_k) * grpo(rows, config).episode + config.empg_zeta * following
    return episode_only(total - total.mean())


def modulation(table: RowTable, config: AlgorithmConfig) -> Floats:
    """Return AEM's factor of each row (arXiv 2605.00425), shape [R]; its mean over each set is 1.

    Sets are those of `entropy_weight_scope`. A reply without a token is in no set and gets 1, as do equal ones.

    Args:
        table: Rows with entropies, in an order that does not depend on how they arrived.
        config: Reads `entropy_weight` and `entropy_weight_scope`.

    Raises:
        ConfigError: The table has no entropies.
    """
    entropy = _entropies(table, f"entropy_weight={config.entropy_weight:g}")
    known = np.isfinite(entropy)
    factor = np.ones(len(entropy))
    owner = _owners(table, config.entropy_weight_scope)
    for number in np.unique(owner[known]).tolist():
        members = np.flatnonzero(known & (owner == number))
        everyone = np.ones(len(members), dtype=np.bool_)
        h = _scaled(entropy[members], everyone, UNIFORM_ENTROPY)
        factor[members] = _weights(h, everyone, config.entropy_weight)
    return factor


def _owners(table: RowTable, scope: EntropyScope) -> Ints:
    if scope is EntropyScope.EPISODE:
        return table.episode
    if scope is EntropyScope.GROUP:
        return table.group
    return np.zeros(len(table), dtype=np.int64)


def _scaled(entropy: Floats, known: Bools, floor: float) -> Floats:
    """Entropies scaled to [0, 1]; 0 where unknown, and everywhere where their spread is below `floor`."""
    h = np.zeros(len(entropy))
    if known.any() and np.ptp(entropy[known]) >= floor:
        h[known] = (entropy[known] - entropy[known].min()) / np.ptp(entropy[known])
    return h


def _weights(h: Floats, known: Bools, rate: float) -> Floats:
    """Weights of mean 1 that fall with h; 1 where unknown."""
    confidence = np.exp(-rate * h)
    return np.where(known, confidence / (confidence[known].mean() if known.any() else 1.0), 1.0)


def _entropies(table: RowTable, reader: str) -> Floats:
    if table.entropy is None:
        raise ConfigError(
            f"{reader} needs the entropy of each turn, got a table without that column. Fill RowTable.entropy "
            "(trainers.update.scoring_pass.turn_entropies)."
        )
    return table.entropy

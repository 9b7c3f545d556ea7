"""G2PO (arXiv 2606.22995): a task group's episodes as one graph, states as nodes and turns as edges.

With n the turns of an episode, j a turn from 0 and R the episode's return without penalties:

    V(s)  = mean of gamma^(n - j) R over all visits of the group to s
    A_NC  = V(next state) - penalty, normalised over the turns that leave the same state; alone: 0
    A_EC  = V(next state) - V(state), normalised over all turns of the task group
    A     = A_grpo + omega (A_NC + A_EC)

The source is the public code (g2po/core_g2po.py). It values the end of a won episode at the success reward, a
constant, and any other end at 0. `g2po_terminal` is that constant; without it the end is worth the episode's own
return: the same for returns of 0 and of that reward, a reading for graded ones.
"""

from __future__ import annotations

import numpy as np

from trainers.settings.algorithm import AlgorithmConfig
from trainers.update.anchors import step_groups
from trainers.update.estimators.base import EstimatorRows, Parts
from trainers.update.estimators.episodes import grpo
from trainers.update.estimators.statistics import centre, divisor_of
from trainers.update.turn_table import Floats, Ints


def g2po(rows: EstimatorRows, config: AlgorithmConfig) -> Parts:
    """The advantage of `grpo`, and as the step part the node-centric plus the edge-centric one."""
    nodes = step_groups(rows.table.group, rows.table.anchor, config.anchor_similarity)
    value, following = node_values(rows, nodes, config)
    divisor = divisor_of(config.normalisation)
    node_centric = centre(following - rows.penalty, nodes, rows.company, divisor)
    edge_centric = centre(following - value, rows.table.group, rows.company, divisor)
    return Parts(grpo(rows, config).episode, node_centric + edge_centric, nodes)


def node_values(rows: EstimatorRows, nodes: Ints, config: AlgorithmConfig) -> tuple[Floats, Floats]:
    """Return V of the state that each turn leaves and of the one that it leads to, each of shape [R].

    Args:
        rows: The rows.
        nodes: Node of each row, numbered from 0, shape [R].
        config: Reads `gamma` and `g2po_terminal`.
    """
    table = rows.table
    last = np.append(table.episode[1:] != table.episode[:-1], [True])[: len(table)]
    _, owner = np.unique(table.episode, return_inverse=True)
    length = np.zeros(len(table), dtype=np.int64)
    # Turn numbers and not rows are counted, so that a turn without a row still discounts.
    length[owner[last]] = table.turn[last] + 1
    visits = config.gamma ** (length[owner] - table.turn) * rows.returns
    value = (np.bincount(nodes, weights=visits) / np.maximum(np.bincount(nodes), 1))[nodes]
    end = rows.returns
    if config.g2po_terminal is not None:
        end = np.where(rows.returns == config.g2po_terminal, config.g2po_terminal, 0.0)
    return value, np.where(last, end, np.roll(value, -1))

"""What an estimator is: the rows that it sees, the parts that it returns, and which of its rows are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainers.settings.algorithm import AlgorithmConfig, Statistics
from trainers.update.turn_table import Bools, Floats, Ints, RowTable


@dataclass(frozen=True, eq=False)
class EstimatorRows:
    """What an estimator sees: the rows of finite episodes in (group, episode, turn) order."""

    table: RowTable
    """The rows, shape [R]."""
    score: Floats
    """Episode return of each row, shape [R], lowered by the row's penalty under `turn` statistics."""
    returns: Floats
    """Episode return of each row, shape [R], without penalties."""
    votes: Bools
    """Rows that count in the statistics of task groups: all those with company, or the first of each such
    episode, shape [R]."""
    company: Bools
    """Rows whose task group holds another episode, shape [R]. The others count in no statistics: an episode alone
    in its group has nothing to be compared with, however its turns differ by their penalties."""
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


def estimator_rows(table: RowTable, returns: Floats, statistics: Statistics) -> EstimatorRows:
    """Return what estimators see.

    Args:
        table: Rows of finite episodes, in (group, episode, turn) order.
        returns: Episode return of each row, shape [R].
        statistics: Who votes.
    """
    company = _in_company(table)
    if statistics is Statistics.TURN:
        return EstimatorRows(table, returns - table.penalty, returns, company, company, penalty=table.penalty)
    # Penalties of single replies must not shift the baseline of whole episodes, and a row in a group where
    # everything fails must still feel its own: they are taken from the final advantage instead.
    votes = first_rows(table.episode) & company
    return EstimatorRows(table, returns, returns, votes, company, penalty=np.zeros(len(table)))


def episode_only(values: Floats) -> Parts:
    """Return the parts of an estimator without a step part."""
    return Parts(episode=values, step=np.zeros(len(values)))


def first_rows(episode: Ints) -> Bools:
    """Whether a row is the first of its episode, shape [R]."""
    first = np.zeros(len(episode), dtype=np.bool_)
    first[np.unique(episode, return_index=True)[1]] = True
    return first


def first_visits(episode: Ints, groups: Ints) -> Bools:
    """Whether a row is the first of its episode in its step group, shape [R]."""
    first = np.zeros(len(episode), dtype=np.bool_)
    first[np.unique(np.stack([episode, groups]), axis=1, return_index=True)[1]] = True
    return first


def _in_company(table: RowTable) -> Bools:
    _, owner = np.unique(table.group, return_inverse=True)
    episodes = np.bincount(owner, weights=first_rows(table.episode))
    return np.asarray(episodes[owner] > 1, dtype=np.bool_)

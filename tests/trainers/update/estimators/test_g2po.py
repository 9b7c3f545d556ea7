"""G2PO: node and edge values by hand, what it is without them, and what it says of moves that lose a level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings

import agent_gym  # noqa: F401 (registers the environments)
from tests.trainers.turn_tables import REFERENCE, table_of, tables
from trainers.settings.algorithm import ALGORITHMS, AlgorithmConfig, Statistics
from trainers.update.advantages import compute_advantages
from trainers.update.anchors import step_groups
from trainers.update.estimators.base import EstimatorRows, estimator_rows
from trainers.update.estimators.g2po import node_values
from trainers.update.estimators.statistics import by_std, centre
from trainers.update.turn_table import RowTable, episode_returns

G2PO = ALGORITHMS["g2po"]


def values_of(table: RowTable, config: AlgorithmConfig = G2PO) -> tuple[np.ndarray, np.ndarray, EstimatorRows]:
    rows = estimator_rows(table, episode_returns(table), Statistics.TURN)
    return *node_values(rows, step_groups(table.group, table.anchor), config), rows


def test_node_values_and_edge_differences_reference_numbers() -> None:
    value, following, _ = values_of(REFERENCE)
    np.testing.assert_allclose(value, [3.008333, 9.5, 3.008333, 0, 3.008333], atol=1e-5)
    np.testing.assert_allclose(following - value, [6.491667, 0.5, -3.008333, 3.008333, -3.008333], atol=1e-5)


@pytest.mark.parametrize(
    ("normalisation", "node", "edge", "total"),
    [
        (
            "mean",
            [6.333333, 0, -3.166667, 0, -3.166667],
            [5.695000, -0.296667, -3.805000, 2.211667, -3.805000],
            [18.048333, 5.723333, -10.951667, -1.868333, -10.951667],
        ),
        (
            "mean_std",
            [1.154700, 0, -0.577350, 0, -0.577350],
            [1.398114, -0.072831, -0.934121, 0.542961, -0.934121],
            [3.648229, 1.022583, -2.235683, -0.199447, -2.235683],
        ),
    ],
)
def test_reference_numbers(normalisation: str, node: list[float], edge: list[float], total: list[float]) -> None:
    result = compute_advantages(REFERENCE, replace(G2PO, normalisation=normalisation))
    np.testing.assert_allclose(result.step, np.array(node) + edge, atol=1e-5)
    np.testing.assert_allclose(result.total, total, atol=1e-5)


def test_the_end_is_worth_the_return_or_the_success_reward_where_one_is_named() -> None:
    table = table_of([(0, [10.0]), (0, [4.0]), (0, [0.0])], anchor=["a", "b", "c"])
    assert values_of(table)[1].tolist() == [10, 4, 0]
    assert values_of(table, replace(G2PO, g2po_terminal=10.0))[1].tolist() == [10, 0, 0]
    reference = compute_advantages(REFERENCE, G2PO).total
    named = compute_advantages(REFERENCE, replace(G2PO, g2po_terminal=10.0)).total
    np.testing.assert_array_equal(named, reference)


def test_a_turn_without_a_row_still_discounts_the_node() -> None:
    table = table_of([(0, [0.0, 0.0, 8.0])], anchor=["a", "b", "c"]).take(np.array([0, 2]))
    value, following, _ = values_of(table, replace(G2PO, gamma=0.5))
    assert value.tolist() == [1.0, 4.0]
    assert following.tolist() == [4.0, 8.0]


@settings(deadline=None, max_examples=60)
@given(tables())
def test_without_the_graph_it_is_grpo_bit_for_bit(table: RowTable) -> None:
    off = compute_advantages(table, replace(G2PO, omega=0.0)).total
    assert off.tobytes() == compute_advantages(table, ALGORITHMS["grpo"]).total.tobytes()


@settings(deadline=None, max_examples=60)
@given(tables())
def test_names_of_states_do_not_matter(table: RowTable) -> None:
    renamed = replace(table, anchor=tuple({"a": "room", "b": "a", "c": ""}[name] for name in table.anchor))
    expected = compute_advantages(table, G2PO).total
    np.testing.assert_array_equal(compute_advantages(renamed, G2PO).total, expected)


def strayed_episode(env: Any, seed: int, rng: np.random.Generator) -> tuple[list[float], list[str], list[bool]]:
    """Play the oracle with half of its moves at random; rewards, states, and turns that lost the level."""
    _, info = env.reset(seed=seed)
    rewards, anchors, lost = [], [], []
    over = False
    while not over:
        anchors.append(info["anchor"])
        stuck = info["sokoban/deadlocked"]
        actions = info["admissible_actions"]
        by_oracle = not stuck and rng.random() < 0.5
        action = env.unwrapped.oracle_action() if by_oracle else actions[rng.integers(len(actions))]
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        rewards.append(0.0)
        lost.append(not stuck and info["sokoban/deadlocked"])
    rewards[-1] = 10.0 * info["success"]
    return rewards, anchors, lost


def test_moves_that_lose_a_level_have_less_edge_advantage_than_others() -> None:
    env = gymnasium.make("agent_gym/Sokoban-v0", size=(5, 6), max_moves=10, max_turns=12)
    rng = np.random.default_rng(0)
    episodes, anchors, lost = [], [], []
    for level in range(12):
        for _ in range(8):
            rewards, states, flags = strayed_episode(env, level, rng)
            episodes.append((level, rewards))
            anchors += states
            lost += flags
    table = table_of(episodes, anchor=anchors)
    value, following, rows = values_of(table)
    edge = centre(following - value, table.group, rows.company, by_std)
    losing = np.array(lost)
    assert losing.sum() > 20
    assert edge[losing].mean() < 0
    assert edge[losing].mean() < edge[~losing].mean()

"""HGPO: the released estimator's numbers, and its three bases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.trainers.turn_tables import REFERENCE, table_of, tables
from trainers.settings.algorithm import ALGORITHMS
from trainers.update.advantages import compute_advantages
from trainers.update.turn_table import RowTable, step_returns

HGPO = ALGORITHMS["hgpo"]
LONGER = table_of([(0, [0.0, 0.0, 0.0, 10.0]), (0, [0.0, 0.0, 0.0])], anchor=["x", "y", "x", "y", "x", "y", "z"])


def test_step_returns_of_the_longer_example() -> None:
    np.testing.assert_allclose(step_returns(LONGER, 0.95), [8.57375, 9.025, 9.5, 10, 0, 0, 0])


@pytest.mark.parametrize(
    ("table", "normalisation", "expected"),
    [
        (REFERENCE, "mean", [6.333330, 0, -3.166665, 0, -3.166665]),
        (REFERENCE, "mean_std", [1.414213, 0, -0.707106, 0, -0.707106]),
        (LONGER, "mean", [2.549165, 2.683333, 3.475415, 3.658333, -6.024580, -6.341665, 0]),
        (LONGER, "mean_std", [0.596049, 0.596049, 0.812625, 0.812625, -1.408674, -1.408674, 0]),
    ],
)
def test_released_estimator_reference_numbers(table: RowTable, normalisation: str, expected: list[float]) -> None:
    result = compute_advantages(table, replace(HGPO, normalisation=normalisation))
    np.testing.assert_allclose(result.total, expected, atol=1e-5)
    assert not result.episode.any()


def test_weights_are_two_to_three_to_four_over_the_estimates_that_are_not_zero() -> None:
    # The last turns of both episodes have equal states and pasts of two turns; a third ends in the same state only.
    table = table_of(
        [(0, [0.0, 0.0, 6.0]), (0, [0.0, 0.0, 0.0]), (0, [0.0, 0.0, 3.0])],
        anchor=["a", "b", "c", "a", "b", "c", "d", "b", "c"],
    )
    config = replace(HGPO, normalisation="mean", gamma=0.0)
    last = compute_advantages(table, config).total[[2, 5, 8]]
    # Returns 6, 0, 3: one state +3, -3, 0; one more turn the same; all three turns +3, -3, alone.
    np.testing.assert_allclose(last, [3, -3, 0], atol=1e-5)
    table = table_of(
        [(0, [0.0, 0.0, 6.0]), (0, [0.0, 0.0, 0.0]), (0, [0.0, 0.0, 1.0])],
        anchor=["a", "b", "c", "a", "b", "c", "d", "e", "c"],
    )
    last = compute_advantages(table, config).total[[2, 5, 8]]
    mean = 7 / 3
    # The third is alone with its past, so only its first estimate counts; a rule of 1 : 2 : 3 would give 2.9444.
    expected = [(2 * (6 - mean) + 7 * 3) / 9, (2 * -mean - 7 * 3) / 9, 1 - mean]
    np.testing.assert_allclose(last, expected, atol=1e-5)


def test_first_turns_are_compared_with_turns_of_their_state_only_once() -> None:
    table = table_of([(0, [4.0]), (0, [0.0]), (0, [0.0, 1.0])], anchor=["a", "a", "b", "a"])
    config = replace(HGPO, normalisation="mean", gamma=0.0)
    # All three at "a": 4, 0, 1. A deeper group of the two first turns would add +2 and -2.
    np.testing.assert_allclose(
        compute_advantages(table, config).total[[0, 1, 3]], [7 / 3, -5 / 3, -2 / 3], atol=1e-5
    )


def test_the_grouped_base_is_one_more_item_of_weight_one() -> None:
    grouped = compute_advantages(REFERENCE, replace(HGPO, normalisation="mean", hgpo_base="grouped")).total
    items = [(2 * 6.333333 + 6.02) / 3, 6.02, (2 * -3.166667 - 3.98) / 3, -4.08, (2 * -3.166667 - 3.98) / 3]
    np.testing.assert_allclose(grouped, items, atol=1e-5)


def test_the_added_base_has_the_advantage_of_the_episode_beside_it() -> None:
    added = replace(HGPO, hgpo_base="added")
    mean = compute_advantages(REFERENCE, replace(added, normalisation="mean")).total
    np.testing.assert_allclose(mean, [11.033889, 6.02, -8.466111, -4.08, -7.146667], atol=1e-5)
    std = compute_advantages(REFERENCE, added).total
    np.testing.assert_allclose(std, [1.877120, 1.095415, -1.409692, -0.742407, -1.301561], atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(tables())
def test_without_history_and_division_the_whole_advantage_is_gigpo_s_step(table: RowTable) -> None:
    flat = compute_advantages(table, replace(HGPO, hgpo_depth=0, normalisation="mean"))
    gigpo = compute_advantages(table, replace(ALGORITHMS["gigpo"], normalisation="mean"))
    np.testing.assert_allclose(flat.total, gigpo.step, rtol=1e-6, atol=1e-12)

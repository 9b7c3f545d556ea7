"""Statistics of groups: the 1e-6 beside a deviation, and episodes that nothing can be compared with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.trainers.turn_tables import table_of
from trainers.settings.algorithm import ALGORITHMS, AlgorithmConfig, Statistics
from trainers.update.advantages import compute_advantages, whiten
from trainers.update.estimators.statistics import by_biased_std, by_std

CLOSE = [0.0, 2e-6]
"""Their unbiased deviation is sqrt(2) 1e-6 and their biased one 1e-6: as small as what is added to it."""
UNBIASED = 1 / (math.sqrt(2) + 1)
"""1e-6 / (sqrt(2) 1e-6 + 1e-6); without the addition it would be 0.7071."""


def test_a_deviation_as_small_as_epsilon_is_divided_with_it() -> None:
    assert by_std(np.array(CLOSE)) == pytest.approx((math.sqrt(2) + 1) * 1e-6)
    assert by_biased_std(np.array(CLOSE)) == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    # gigpo adds the same number for the step; hgpo's is biased, with weights 2 / (2 + 1e-6).
    [("grpo", UNBIASED), ("empg", UNBIASED), ("gigpo", 2 * UNBIASED), ("hgpo", 0.5), ("g2po", 3 * UNBIASED)],
)
def test_epsilon_beside_the_deviation_shows_in_every_estimator(name: str, expected: float) -> None:
    config = replace(ALGORITHMS[name], empg_zeta=0.0, gamma=0.0)
    table = table_of([(0, [value]) for value in CLOSE], anchor=["s", "s"])
    np.testing.assert_allclose(compute_advantages(table, config).total, [-expected, expected], rtol=1e-5)


def test_epsilon_beside_the_deviation_shows_in_whitening() -> None:
    np.testing.assert_allclose(whiten(np.array(CLOSE), np.array([1, 1])), [-UNBIASED, UNBIASED], rtol=1e-5)


@pytest.mark.parametrize("base", ["none", "grouped", "added"])
@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo", "gigpo", "hgpo", "g2po"])
def test_an_episode_alone_in_its_group_gets_zero_however_its_turns_were_penalised(kind: str, base: str) -> None:
    # Three turns of one state with different penalties, beside a group of two.
    table = table_of(
        [(0, [0.0, 0.0, 10.0]), (1, [0.0]), (1, [10.0])], penalty=[0.1, 0.0, 0.1, 0.0, 0.0], anchor=["s"] * 5
    )
    config = AlgorithmConfig(advantage=kind, hgpo_base=base)  # type: ignore[arg-type]
    result = compute_advantages(table, config)
    assert result.total[:3].tolist() == [0, 0, 0]
    assert result.total[3] < 0 < result.total[4]
    fined = compute_advantages(table, replace(config, statistics=Statistics.EPISODE)).total
    np.testing.assert_allclose(fined[:3], [-0.1, 0, -0.1])


def test_an_episode_whose_companions_were_dropped_is_alone() -> None:
    table = table_of([(0, [0.0, 10.0]), (0, [math.nan])], penalty=[0.1, 0.0, 0.0], anchor=["s"] * 3)
    for name in ("grpo", "gigpo", "hgpo", "g2po", "aem"):
        assert compute_advantages(table, ALGORITHMS[name]).total.tolist() == [0, 0, 0]

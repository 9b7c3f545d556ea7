"""Which turns stand out: deviations inside anchor groups, pools that never mix, and what small groups can show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError
from trainers.run.metrics import METRICS
from trainers.settings.stapo import EntropyKind, Side, StapoSettings
from trainers.stapo.outliers import Outliers, Pool, locate
from trainers.update.turn_table import RowTable

PLAIN = StapoSettings()


def table_of(groups: list[list[float]], owner: list[int] | None = None) -> RowTable:
    """One anchor a list, whose turns have the given entropies; every turn is an episode of its own."""
    anchor = [f"state {number}" for number, values in enumerate(groups) for _ in values]
    count = len(anchor)
    group = [(owner or [0] * len(groups))[number] for number, values in enumerate(groups) for _ in values]
    return RowTable(
        group=np.array(group, dtype=int),
        episode=np.arange(count),
        turn=np.zeros(count, dtype=int),
        reward=np.zeros(count),
        penalty=np.zeros(count),
        anchor=tuple(anchor),
        n_tokens=np.full(count, 4),
        entropy=np.array([value for values in groups for value in values], dtype=float),
    )


def flagged(table: RowTable, **changes: Any) -> list[int]:
    return locate(table, replace(PLAIN, **changes)).flagged.nonzero()[0].tolist()


def test_deviations_are_those_of_the_anchor_group() -> None:
    found = locate(table_of([[1.0, 2.0, 3.0, 4.0, 5.0, 9.0], [7.0]]), PLAIN)
    # Mean 4, unbiased deviation sqrt((9 + 4 + 1 + 0 + 1 + 25) / 5) = 2.8284.
    np.testing.assert_allclose(found.value[:6], np.array([-3, -2, -1, 0, 1, 5]) / 2.8284, atol=1e-4)
    assert found.value[6] == 7.0
    assert found.pool == (Pool.NORMALIZED,) * 6 + (Pool.SHANNON,)
    assert found.group_size.tolist() == [6] * 6 + [1]
    # Quartiles of the deviations lie at -.6187 and .2652, so the limit is .2652 + 1.5 * .8839.
    assert found.limits[Pool.NORMALIZED][1] == pytest.approx(1.5910, abs=1e-3)
    assert found.flagged.tolist() == [False] * 5 + [True, False]


def test_epsilon_is_added_to_the_deviation() -> None:
    # Two entropies 2e-4 apart: unbiased deviation sqrt(2) 1e-4, and 1e-6 beside it; without that: .70711.
    found = locate(table_of([[1.0, 1.0002]]), replace(PLAIN, min_anchor_group=2))
    np.testing.assert_allclose(found.value, np.array([-1, 1]) * 1e-4 / (math.sqrt(2) * 1e-4 + 1e-6), rtol=1e-6)


def test_centred_entropies_are_differences_from_the_mean_of_their_state() -> None:
    found = locate(table_of([[1.0, 1.2, 2.0], [7.0]]), replace(PLAIN, entropy=EntropyKind.CENTRED))
    np.testing.assert_allclose(found.value, [-0.4, -0.2, 0.6, 7.0], atol=1e-5)
    assert found.pool == (Pool.CENTRED,) * 3 + (Pool.SHANNON,)
    assert found.eligible.tolist() == [True] * 3 + [False]
    others = locate(table_of([[1.0, 1.2, 2.0]]), replace(PLAIN, entropy=EntropyKind.CENTRED, leave_one_out=True))
    np.testing.assert_allclose(others.value, [-0.6, -0.3, 0.9], atol=1e-5)


def test_centred_entropies_are_compared_from_two_turns_of_a_state_on() -> None:
    found = locate(table_of([[1.0, 3.0], [2.0]]), replace(PLAIN, entropy=EntropyKind.CENTRED, min_anchor_group=50))
    assert found.value.tolist() == [-1.0, 1.0, 2.0]
    assert found.stats()["stapo/eligible_share"] == pytest.approx(2 / 3)


def test_leaving_a_turn_out_compares_it_with_the_others() -> None:
    found = locate(table_of([[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]]), replace(PLAIN, leave_one_out=True))
    # The others of the last turn: mean 3, deviation 1.5811.
    assert found.value[5] == pytest.approx(6 / 1.5811, abs=1e-3)
    assert found.value[0] == pytest.approx((1 - 4.6) / 2.7019, abs=1e-3)
    two = locate(table_of([[1.0, 2.0]]), replace(PLAIN, leave_one_out=True, min_anchor_group=2))
    assert two.value.tolist() == [0.0, 0.0]


def test_small_groups_keep_their_entropy_in_a_pool_of_their_own() -> None:
    # Five turns of one state are too few; with the singles they are compared in nats.
    table = table_of([[1.0, 1.1, 1.2, 1.0, 5.0], [1.1], [1.2], [1.0]])
    found = locate(table, PLAIN)
    assert set(found.pool) == {Pool.SHANNON}
    np.testing.assert_array_equal(found.value, table.entropy)
    assert found.flagged.nonzero()[0].tolist() == [4]
    assert locate(table, replace(PLAIN, min_anchor_group=5)).pool[:5] == (Pool.NORMALIZED,) * 5


def test_scales_of_the_two_pools_never_mix() -> None:
    # Deviations around 0 and entropies around 8: in one pool the second would all stand out.
    table = table_of([[1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98], [8.0], [8.1], [7.9], [8.05]])
    assert flagged(table) == []


def test_shannon_puts_every_turn_into_one_pool() -> None:
    found = locate(table_of([[1.0] * 8, [1.0]]), replace(PLAIN, entropy=EntropyKind.SHANNON))
    assert set(found.pool) == {Pool.SHANNON}
    assert not found.eligible.any()


def test_the_lower_side_is_found_when_asked_for() -> None:
    table = table_of([[3.0, 3.1, 3.2, 3.05, 3.15, 3.1, 3.1, 0.1]])
    assert flagged(table) == []
    assert flagged(table, side="both") == [7]


def test_equal_entropies_flag_nothing_whatever_rounding_adds() -> None:
    for spread in (0.0, 1e-7, 9e-5):
        noise = [1.0 + spread * (place % 3 - 1) / 2 for place in range(12)]
        noise[4] = 1.0 + spread
        assert flagged(table_of([noise])) == []
        assert flagged(table_of([noise]), entropy="centred") == []
        assert flagged(table_of([noise]), leave_one_out=True) == []
        assert flagged(table_of([[value] for value in noise])) == []


def test_the_floor_of_the_interquartile_range_is_a_setting() -> None:
    table = table_of([[value] for value in [1.0] * 7 + [1.001]])
    assert flagged(table) == []
    assert flagged(table, iqr_floor=1e-5) == [7]


def test_without_selection_every_turn_is_treated() -> None:
    table = table_of([[1.0] * 6, [math.nan]])
    assert flagged(table, selective=False) == list(range(6))


@pytest.mark.parametrize("entropies", [[], [[1.0]], [[math.nan]], [[math.nan] * 7], [[1.0], [2.0]]])
def test_batches_of_nothing_of_one_and_of_unknown_turns(entropies: list[list[float]]) -> None:
    for changes in ({}, {"leave_one_out": True}, {"entropy": "shannon"}, {"side": "both"}):
        found = locate(table_of(entropies), replace(PLAIN, **changes))
        assert not found.flagged.any()
        assert all(math.isfinite(value) for value in found.stats().values())


def test_replies_without_a_token_take_no_part() -> None:
    with_gap = locate(table_of([[1.0, math.nan, 2.0, 3.0, 4.0, 5.0, 9.0]]), PLAIN)
    without = locate(table_of([[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]]), PLAIN)
    known = np.isfinite(with_gap.entropy)
    np.testing.assert_array_equal(with_gap.value[known], without.value)
    assert with_gap.pool[1] is Pool.UNKNOWN
    assert math.isnan(with_gap.value[1])


def test_states_of_other_tasks_and_similar_states() -> None:
    near = table_of([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
    assert not locate(near, PLAIN).eligible.any()
    assert locate(near, PLAIN, similarity=0.8).eligible.all()  # "state 0" and "state 1"
    far = table_of([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]], owner=[0, 1])
    assert not locate(far, PLAIN, similarity=0.8).eligible.any()


def test_a_table_without_entropies_is_refused() -> None:
    with pytest.raises(ConfigError, match="got a table without that column"):
        locate(replace(table_of([[1.0]]), entropy=None), PLAIN)


def test_metrics_are_explained_and_left_out_where_nothing_is_to_be_said() -> None:
    found = locate(table_of([[1.0, 2.0, 3.0, 4.0, 5.0, 9.0], [7.0]]), PLAIN).stats()
    assert set(found) <= set(METRICS)
    assert found["stapo/outlier_share"] == pytest.approx(1 / 7)
    assert found["stapo/eligible_share"] == pytest.approx(6 / 7)
    assert found["stapo/entropy_normalized_pool"] == pytest.approx(4.0)
    assert found["stapo/entropy_shannon_pool"] == pytest.approx(7.0)
    assert found["stapo/entropy_outliers"] == pytest.approx(9.0)
    assert found["stapo/outlier_share_shannon_pool"] == 0.0
    assert "stapo/entropy_outliers" not in locate(table_of([[1.0]]), PLAIN).stats()
    assert locate(table_of([]), PLAIN).stats() == {}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 0.7, 3.0, math.nan]), min_size=1, max_size=9), max_size=6),
    st.booleans(),
    st.sampled_from(list(EntropyKind)),
    st.sampled_from([1.0, 0.8]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_changes_nothing(
    entropies: list[list[float]], leave_one_out: bool, kind: EntropyKind, similarity: float, rng: Any
) -> None:
    table = table_of(entropies)
    order = list(range(len(table)))
    rng.shuffle(order)
    chosen = replace(PLAIN, leave_one_out=leave_one_out, entropy=kind, side=Side.BOTH)
    plain = locate(table, chosen, similarity)
    mixed = locate(table.take(np.array(order, dtype=int)), chosen, similarity)
    np.testing.assert_array_equal(mixed.flagged, plain.flagged[order])
    np.testing.assert_array_equal(mixed.value, plain.value[order])
    assert mixed.limits == plain.limits


@pytest.mark.parametrize(("n", "largest"), [(2, 0.71), (3, 1.15), (4, 1.5), (5, 1.79), (8, 2.47)])
def test_the_largest_deviation_of_n_turns(n: int, largest: float) -> None:
    found = locate(table_of([[0.0] * (n - 1) + [100.0]]), replace(PLAIN, min_anchor_group=2))
    assert found.value.max() == pytest.approx(largest, abs=5e-3)
    assert (n - 1) / math.sqrt(n) == pytest.approx(largest, abs=5e-3)


def planted(n: int, seed: int, states: int = 400) -> tuple[RowTable, np.ndarray]:
    """States of n turns of a level of their own with noise of 0.1 nats, 3 % of the turns 3 nats above it."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.5, 3.0, size=(states, 1))
    truth = rng.random((states, n)) < 0.03
    entropy = np.abs(level + rng.normal(0, 0.1, size=(states, n))) + 3.0 * truth
    return table_of(entropy.tolist()), truth.reshape(-1)


def recall(found: Outliers, truth: np.ndarray) -> float:
    return float(found.flagged[truth].mean())


@pytest.mark.parametrize(
    ("n", "low", "high"), [(3, 0, 0), (5, 0, 0), (6, 0, 0), (8, 0.7, 0.9), (16, 0.97, 1), (32, 0.99, 1)]
)
def test_recall_of_planted_turns_by_size_of_the_group(n: int, low: float, high: float) -> None:
    chosen = replace(PLAIN, min_anchor_group=2)
    found = [recall(locate(table, chosen), truth) for table, truth in (planted(n, seed) for seed in range(3))]
    assert low <= np.mean(found) <= high, found


def test_leaving_one_out_finds_planted_turns_in_small_groups_too() -> None:
    table, truth = planted(5, 0)
    found = locate(table, replace(PLAIN, min_anchor_group=2, leave_one_out=True))
    assert recall(found, truth) > 0.8
    assert float(found.flagged[~truth].mean()) < 0.12


@pytest.mark.parametrize(("n", "least"), [(2, 0.85), (3, 0.95), (5, 0.95)])
def test_centred_entropies_find_planted_turns_in_small_groups(n: int, least: float) -> None:
    chosen = replace(PLAIN, entropy=EntropyKind.CENTRED)
    for seed in range(3):
        table, truth = planted(n, seed)
        found = locate(table, chosen)
        assert recall(found, truth) >= least
        assert float(found.flagged[~truth].mean()) < 0.05


def test_a_turn_that_ignores_goal_and_history_stands_out_in_its_state_only() -> None:
    # Hard states, where every good reply is open (2 nats), and an easy one in which seven of eight turns are sure
    # of what to do and one, which reads neither goal nor history, is as undecided as is usual elsewhere.
    rng = np.random.default_rng(0)
    hard = [(2.0 + rng.normal(0, 0.1, 8)).tolist() for _ in range(6)]
    easy = [[*(0.2 + rng.normal(0, 0.05, 7)).tolist(), 1.6]]
    table = table_of(hard + easy)
    assert flagged(table) == [len(table) - 1]
    assert flagged(table, entropy="shannon") == []

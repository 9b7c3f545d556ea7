from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics import (
    IntervalMethod,
    mean_interval,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    rate_interval,
    wilson,
)


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_at_k_and_pass_hat_k_equal_brute_force_over_subsets(attempts, k):
    won, tried = [sum(attempts)], [len(attempts)]
    if k > len(attempts):
        assert pass_at_k(won, tried, k) is None
        assert pass_hat_k(won, tried, k) is None
        return
    draws = list(combinations(attempts, k))
    assert pass_at_k(won, tried, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(won, tried, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_pass_at_k_is_unbiased_over_unequal_numbers_of_valid_attempts():
    rng = np.random.default_rng(0)
    chance = rng.random(4000)
    tried = rng.integers(2, 6, 4000)
    won = rng.binomial(tried, chance)
    assert pass_at_k(won, tried, 2) == pytest.approx(np.mean(1 - (1 - chance) ** 2), abs=0.015)
    assert pass_hat_k(won, tried, 2) == pytest.approx(np.mean(chance**2), abs=0.015)


def test_tasks_with_too_few_attempts_are_left_out_and_impossible_counts_refused():
    assert pass_at_k([1, 0], [1, 3], 2) == 0.0
    with pytest.raises(ValueError, match="successes"):
        pass_at_k([2], [1], 1)
    with pytest.raises(ValueError, match="k must be"):
        pass_at_k([1], [1], 0)


@pytest.mark.parametrize(
    ("rate", "tasks", "least"), [(0.5, 100, 0.93), (0.8, 200, 0.93), (0.03, 100, 0.93), (0.6, 12, 0.93)]
)
def test_interval_of_a_rate_covers_the_truth_about_95_times_in_100(rate, tasks, least):
    rng = np.random.default_rng(1)
    trials = 600
    intervals = [rate_interval(rng.random(tasks) < rate, seed=trial) for trial in range(trials)]
    covered = np.mean([found.low <= rate <= found.high for found in intervals])
    assert least <= covered <= 0.985


def test_bootstrap_of_repeated_attempts_resamples_tasks_and_covers():
    rng = np.random.default_rng(2)
    covered = []
    for trial in range(300):
        chance = rng.beta(0.5, 0.5, 60)
        rates = rng.binomial(5, chance) / 5
        found = rate_interval(rates, seed=trial)
        covered.append(found.low <= 0.5 <= found.high)
        assert found.method is IntervalMethod.BOOTSTRAP
    assert 0.91 <= np.mean(covered) <= 0.985


def test_resampled_binary_rates_agree_with_the_explicit_bootstrap():
    values = np.array([1.0] * 40 + [0.0] * 60)
    fast, slow = mean_interval(values), mean_interval(values * 0.5)
    assert fast.low == pytest.approx(2 * slow.low, abs=0.02)
    assert fast.high == pytest.approx(2 * slow.high, abs=0.02)


def test_twenty_of_twenty_is_not_certain():
    found = rate_interval([1.0] * 20)
    assert found.method is IntervalMethod.WILSON
    assert found.value == 1.0
    assert found.high == pytest.approx(1.0)
    assert found.low == pytest.approx(0.839, abs=1e-3)


def test_wilson_equals_its_published_example():
    low, high = wilson(15, 50)
    assert (low, high) == pytest.approx((0.1910, 0.4375), abs=1e-3)


def test_an_interval_is_a_function_of_its_arguments_and_leaves_the_global_generator_alone():
    values = np.linspace(0, 1, 50)
    before = np.random.get_state()[1].copy()
    assert mean_interval(values, seed=3) == mean_interval(values, seed=3)
    assert mean_interval(values, seed=3) != mean_interval(values, seed=4)
    assert (np.random.get_state()[1] == before).all()


def test_nothing_to_estimate_from_says_so():
    assert rate_interval([]).method is IntervalMethod.NONE
    with pytest.raises(ValueError, match="finite"):
        rate_interval([float("nan")])


def test_pairing_finds_a_planted_gap_of_five_points_over_500_tasks():
    rng = np.random.default_rng(5)
    difficulty = rng.random(500)
    first = (difficulty < 0.55).astype(float)
    second = (difficulty < 0.50).astype(float)
    found = paired_difference(first, second)
    assert found.low > 0.0
    assert found.low <= 0.05 <= found.high + 0.02
    same = paired_difference(first, first)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="as many"):
        paired_difference([1.0], [1.0, 0.0])

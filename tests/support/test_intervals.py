from __future__ import annotations

from math import lgamma

import numpy as np
import pytest

from agent_gym.support.intervals import (
    IntervalMethod,
    mean_interval,
    paired_difference,
    rate_interval,
    wilson,
)


def coverage_of_rates(tasks, rates):
    """Return the exact chance that the interval of `tasks` binary outcomes holds each of the true rates."""
    intervals = [rate_interval([1.0] * won + [0.0] * (tasks - won), seed=won) for won in range(tasks + 1)]
    low, high = (np.array([getattr(found, end) for found in intervals]) for end in ("low", "high"))
    won = np.arange(tasks + 1)
    ways = np.array([lgamma(tasks + 1) - lgamma(k + 1) - lgamma(tasks - k + 1) for k in won])
    chance = np.exp(ways + won * np.log(rates)[:, None] + (tasks - won) * np.log1p(-rates)[:, None])
    return (chance * ((low <= rates[:, None]) & (rates[:, None] <= high))).sum(axis=1)


@pytest.mark.parametrize(("tasks", "edge"), [(100, 0.2), (200, 0.1), (500, 0.1)])
def test_the_interval_of_a_rate_covers_the_truth_95_times_in_100(tasks, edge):
    rates = np.linspace(0.02, 0.98, 193)
    covered = coverage_of_rates(tasks, rates)
    assert 0.945 <= covered.mean() <= 0.96
    assert covered.min() >= 0.925
    # Nearer to 0 and 1 so few outcomes are possible that no interval keeps to 0.95: these err on the wide side.
    amid = covered[(rates >= edge) & (rates <= 1 - edge)]
    assert amid.min() >= 0.93 and amid.max() <= 0.97


def test_bootstrap_of_repeated_attempts_resamples_tasks_and_covers():
    rng = np.random.default_rng(2)
    covered = []
    for trial in range(600):
        chance = rng.beta(0.5, 0.5, 100)
        rates = rng.binomial(5, chance) / 5
        found = rate_interval(rates, seed=trial)
        covered.append(found.low <= 0.5 <= found.high)
        assert found.method is IntervalMethod.BOOTSTRAP
    assert 0.93 <= np.mean(covered) <= 0.97


def test_counting_equal_values_resamples_as_drawing_tasks_does():
    values = np.array([1.0] * 80 + [0.5] * 100 + [0.0] * 220)
    counted, drawn = mean_interval(values), mean_interval(values + np.linspace(0.0, 1e-9, 400))
    spread = values.std() / 20
    assert counted.low == pytest.approx(drawn.low, abs=0.1 * spread)
    assert counted.high == pytest.approx(drawn.high, abs=0.1 * spread)


def test_twenty_of_twenty_is_not_certain():
    found = rate_interval([1.0] * 20)
    assert found.method is IntervalMethod.WILSON
    assert found.value == 1.0
    assert found.high == 1.0
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


def planted(rng, tasks, won, lost):
    """Return outcomes of two agents: shares of the tasks are won by the first only, and by the second only."""
    kind = rng.choice(4, size=tasks, p=[won, lost, 0.4, 0.6 - won - lost])
    return np.isin(kind, (0, 2)).astype(float), np.isin(kind, (1, 2)).astype(float)


def test_pairing_finds_a_planted_gap_of_five_points_over_500_tasks():
    rng = np.random.default_rng(5)
    trials = 150
    paired, unpaired, false = 0, 0, 0
    for trial in range(trials):
        first, second = planted(rng, 500, 0.09, 0.04)
        paired += paired_difference(first, second, seed=trial).low > 0.0
        unpaired += rate_interval(first).low > rate_interval(second).high
        found = paired_difference(*planted(rng, 500, 0.065, 0.065), seed=trial)
        false += not found.low <= 0.0 <= found.high
    assert paired / trials >= 0.8
    assert unpaired / trials <= 0.2
    assert 0.02 <= false / trials <= 0.08


def coverage_of_differences(tasks, won, lost):
    """Return the exact chance that the interval of `tasks` pairs holds the truth, for shares [G] won and lost."""
    counts = [(w, k, tasks - w - k) for w in range(tasks + 1) for k in range(tasks + 1 - w)]
    found = [
        paired_difference([1.0] * w + [0.0] * (k + e), [0.0] * w + [1.0] * k + [0.0] * e) for w, k, e in counts
    ]
    low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
    factorials = np.array([lgamma(number + 1) for number in range(tasks + 1)])
    ways = factorials[tasks] - factorials[np.array(counts)].sum(axis=1)
    shares = np.maximum(np.stack([won, lost, 1 - won - lost], axis=1), 1e-12)
    chance = np.exp(ways + np.log(shares) @ np.array(counts).T)
    truth = (won - lost)[:, None]
    return (chance * ((low - 1e-9 <= truth) & (truth <= high + 1e-9))).sum(axis=1)


@pytest.mark.parametrize("tasks", [10, 20, 50])
def test_the_interval_of_a_paired_difference_holds_the_truth_with_few_tasks(tasks):
    differing = np.repeat([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99], 7)
    lost = differing * np.tile([0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5], 15)
    assert coverage_of_differences(tasks, differing - lost, lost).min() >= 0.94


def test_ten_of_ten_against_none_of_ten_is_not_certain():
    found = paired_difference([0.0] * 10, [1.0] * 10)
    assert (found.value, found.low, found.method) == (-1.0, -1.0, IntervalMethod.ADJUSTED)
    assert -0.6 < found.high < -0.3
    turned = paired_difference([1.0] * 10, [0.0] * 10)
    assert (turned.low, turned.high) == pytest.approx((-found.high, 1.0))
    assert paired_difference([0.5, 1.0], [0.5, 0.0]).method is IntervalMethod.ADJUSTED  # scores likewise
    assert paired_difference(np.linspace(0, 1, 40), np.zeros(40)).method is IntervalMethod.BOOTSTRAP


def test_pairing_an_agent_with_itself_finds_next_to_nothing_and_other_tasks_are_refused():
    first = (np.random.default_rng(6).random(500) < 0.5).astype(float)
    same = paired_difference(first, first)
    assert same.value == 0.0
    assert -0.006 < same.low < 0.0 < same.high < 0.006
    with pytest.raises(ValueError, match="as many"):
        paired_difference([1.0], [1.0, 0.0])

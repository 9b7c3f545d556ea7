from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError, DataError
from trainers.rollout.group_filter import FilterPlan, GroupOutcome, is_mixed
from trainers.run.metrics import METRICS
from trainers.settings.algorithm import ALGORITHMS, FilterOn

DYNAMIC = replace(ALGORITHMS["sampo"], filter_warmup=0)


def group(number: int, wins: int, size: int = 8) -> GroupOutcome:
    flags = [True] * wins + [False] * (size - wins)
    return GroupOutcome(number, tuple(float(flag) for flag in flags), tuple(flags))


def test_success_is_averaged_before_filtering() -> None:
    outcomes = [group(n, 8) for n in range(4)] + [group(n, 0) for n in range(4, 7)] + [group(7, 4)]
    plan = FilterPlan.start(8, DYNAMIC, 0).add(outcomes)
    stats = plan.stats()
    assert stats["rollout/success"] == 36 / 64
    assert stats["filter/kept_share"] == 1 / 8
    assert plan.shortfall == 7


def test_mixed_groups_accumulate_and_only_the_shortfall_is_resampled() -> None:
    plan = FilterPlan.start(4, DYNAMIC, 0)
    assert plan.shortfall == 4
    plan = plan.add([group(0, 8), group(1, 4), group(2, 0), group(3, 2)])
    assert plan.shortfall == 2
    plan = plan.add([group(4, 0), group(5, 1)])
    assert plan.shortfall == 1
    plan = plan.add([group(6, 8)])
    assert plan.shortfall == 0
    assert plan.selected() == (0, 1, 3, 5)
    assert plan.stats()["filter/filled_groups"] == 1
    assert plan.stats()["filter/tries"] == 3
    assert plan.stats()["rollout/episodes"] == 56


def test_a_batch_of_mixed_groups_is_settled_at_once() -> None:
    plan = FilterPlan.start(2, DYNAMIC, 0).add([group(0, 1), group(1, 7)])
    assert plan.shortfall == 0
    assert plan.selected() == (0, 1)


def test_surplus_mixed_groups_are_left_out_so_that_the_batch_size_is_constant() -> None:
    plan = FilterPlan.start(2, DYNAMIC, 0).add([group(0, 8), group(1, 1), group(2, 1), group(3, 1)])
    assert plan.selected() == (1, 2)


def test_the_filter_does_not_act_during_its_warmup_or_when_off() -> None:
    warm = replace(DYNAMIC, filter_warmup=5)
    for config, iteration in ((warm, 4), (ALGORITHMS["grpo"], 100)):
        plan = FilterPlan.start(2, config, iteration).add([group(0, 8), group(1, 0)])
        assert plan.shortfall == 0
        assert plan.selected() == (0, 1)
        assert plan.stats()["filter/active"] == 0
    assert FilterPlan.start(2, warm, 5).active


def test_success_filter_ignores_returns_that_differ_by_length_only() -> None:
    wins = GroupOutcome(0, (9.5, 9.1), (True, True))
    assert wins.is_mixed(FilterOn.RETURN)
    assert not wins.is_mixed(FilterOn.SUCCESS)


def test_mixed_means_a_spread_above_rounding_noise() -> None:
    assert not is_mixed([0.1 + 0.2, 0.3])
    assert is_mixed([0.0, 1e-3])
    assert not is_mixed([1.0])
    assert not is_mixed([])
    assert not is_mixed([1.0, math.nan, 1.0])


def test_episodes_with_a_non_finite_return_do_not_make_a_group_mixed() -> None:
    broken = GroupOutcome(0, (math.nan, 1.0, 1.0), (False, True, True))
    assert not broken.is_mixed(FilterOn.RETURN)
    assert not broken.is_mixed(FilterOn.SUCCESS)
    stats = FilterPlan.start(1, DYNAMIC, 0).add([broken]).stats()
    assert stats["rollout/return"] == 1.0
    assert stats["rollout/success"] == pytest.approx(2 / 3)


def test_misuse_is_refused() -> None:
    plan = FilterPlan.start(1, DYNAMIC, 0)
    with pytest.raises(DataError, match="1 groups are still to be sampled"):
        plan.selected()
    with pytest.raises(DataError, match="unique"):
        plan.add([group(0, 1), group(0, 1)])
    with pytest.raises(DataError, match="settled after 1 tries"):
        plan.add([group(0, 1)]).add([group(1, 1)])
    with pytest.raises(DataError, match="1 returns and 2 successes"):
        GroupOutcome(0, (1.0,), (True, False))
    with pytest.raises(ConfigError, match="at least 1 group"):
        FilterPlan.start(0, DYNAMIC, 0)


def test_statistics_are_explained_metrics() -> None:
    assert set(FilterPlan.start(1, DYNAMIC, 0).stats()) <= set(METRICS)


@given(st.integers(1, 6), st.integers(1, 4), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_the_batch_is_full_and_holds_as_many_mixed_groups_as_were_seen(
    wanted: int, max_tries: int, wins: list[int]
) -> None:
    plan = FilterPlan.start(wanted, replace(DYNAMIC, max_tries=max_tries), 0)
    stream = iter(group(number, won, size=3) for number, won in enumerate(wins))
    while plan.shortfall:
        plan = plan.add([next(stream) for _ in range(plan.shortfall)])
    selected = plan.selected()
    assert len(selected) == len(set(selected)) == wanted
    assert plan.tries <= max_tries
    mixed = {outcome.group for outcome in plan.mixed}
    assert len(mixed & set(selected)) == min(len(mixed), wanted)
    assert plan.stats()["filter/filled_groups"] == len(set(selected) - mixed)

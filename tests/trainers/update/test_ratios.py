from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import DataError
from tests.trainers.tensors import Leaf, Reply, batch, full, reply_lists, window
from trainers.settings.algorithm import ImportanceLevel
from trainers.update.ratios import episode_sums, importance_ratio, merge_episode_sums, token_log_ratio

TOKEN, TURN, TRAJECTORY = ImportanceLevel


def by_turn(made: Leaf, values: torch.Tensor) -> dict[int, list[float]]:
    return {turn: [float(values.detach()[spot]) for spot in spots] for turn, spots in made.places.items()}


def test_token_ratio_is_exp_of_each_log_ratio_clamped_at_20() -> None:
    made = window([Reply([0.1, -0.2, 25.0, -25.0], 1.0)])
    ratio = by_turn(made, importance_ratio(made.tokens, TOKEN))[0]
    assert ratio == pytest.approx([math.exp(0.1), math.exp(-0.2), math.exp(20), math.exp(-20)])


def test_turn_ratio_is_the_geometric_mean_on_every_token_of_the_turn() -> None:
    made = window([Reply([0.002, 0.006], 1.0), Reply([-0.010, 0.002, -0.004], -1.0), Reply([0.020], -0.5)])
    ratio = by_turn(made, importance_ratio(made.tokens, TURN))
    assert ratio[0] == pytest.approx([1.004008] * 2, abs=1e-6)
    assert ratio[1] == pytest.approx([0.996008] * 3, abs=1e-6)
    assert ratio[2] == pytest.approx([1.020201], abs=1e-6)


def test_mean_ratios_are_clamped_above_at_10() -> None:
    made = window([Reply([15.0, 15.0], 1.0)])
    for level in (TURN, TRAJECTORY):
        assert by_turn(made, importance_ratio(made.tokens, level))[0] == pytest.approx([math.exp(10)] * 2)


def test_trajectory_mean_counts_tokens_not_turns() -> None:
    made = window([Reply([0.3], 1.0), Reply([0.0, 0.0], 1.0), Reply([0.5], 1.0, episode=1)])
    ratio = by_turn(made, importance_ratio(made.tokens, TRAJECTORY))
    assert ratio[0] + ratio[1] == pytest.approx([math.exp(0.1)] * 3)
    assert ratio[2] == pytest.approx([math.exp(0.5)])


def test_mean_ratio_gradient_is_the_ratio_at_each_token() -> None:
    made = window([Reply([0.1, 0.3], 1.0), Reply([-0.2], 1.0)])
    importance_ratio(made.tokens, TURN).sum().backward()
    grad = made.grad()
    assert grad[0] == pytest.approx([math.exp(0.2)] * 2)
    assert grad[1] == pytest.approx([math.exp(-0.2)])


def test_turn_and_trajectory_agree_on_one_turn_episodes_and_differ_on_longer_ones() -> None:
    single = window([Reply([0.1, 0.2], 1.0, episode=0), Reply([-0.3], 1.0, episode=1)])
    assert torch.equal(importance_ratio(single.tokens, TURN), importance_ratio(single.tokens, TRAJECTORY))
    double = window([Reply([0.1, 0.2], 1.0), Reply([-0.3], 1.0)])
    assert not torch.allclose(importance_ratio(double.tokens, TURN), importance_ratio(double.tokens, TRAJECTORY))


def test_token_and_turn_agree_on_one_token_turns() -> None:
    made = window([Reply([0.1], 1.0), Reply([-0.3], 1.0)])
    assert torch.allclose(importance_ratio(made.tokens, TURN), importance_ratio(made.tokens, TOKEN), rtol=1e-15)


def test_a_small_constant_drift_does_not_shrink_long_episodes() -> None:
    made = window([Reply([-9.4e-4] * 3000, 1.0)], tail=500)
    for level in (TURN, TRAJECTORY):
        ratio = importance_ratio(made.tokens, level)[made.tokens.sampled]
        assert ratio.tolist() == pytest.approx([0.99906] * 3000, abs=1e-5)


@pytest.mark.parametrize("level", list(ImportanceLevel))
def test_masked_positions_contribute_exactly_zero(level: ImportanceLevel) -> None:
    made = window([Reply([0.1], 1.0), Reply([-0.3, 0.2], 1.0)], lead=7, tail=6)
    off = ~made.tokens.sampled
    ratio = importance_ratio(made.tokens, level)
    assert not ratio[off].any()
    assert not token_log_ratio(made.tokens)[off].any()
    ratio.sum().backward()
    assert made.leaf.grad is not None
    assert not made.leaf.grad[off].any()


@settings(deadline=None)
@given(reply_lists(), st.data())
def test_episode_means_do_not_depend_on_the_cut(replies: list[Reply], data: st.DataObject) -> None:
    made = full(replies)
    whole = importance_ratio(made.tokens, TRAJECTORY)
    parts = [batch([[(turn, reply)]]) for turn, reply in enumerate(replies)]
    order = data.draw(st.permutations(range(len(parts))))
    sums = merge_episode_sums(episode_sums(parts[i].tokens) for i in order)
    expected = by_turn(made, whole)
    for turn, part in enumerate(parts):
        given_mean = sums.mean_for(part.tokens.episode)
        ratio = importance_ratio(part.tokens, TRAJECTORY, given_mean)
        assert [float(ratio.detach()[spot]) for spot in part.places[turn]] == pytest.approx(
            expected[turn], abs=1e-12
        )


def test_episode_sums_look_up_padding_rows_as_zero_and_refuse_unknown_episodes() -> None:
    made = window([Reply([0.4], 1.0, episode=3)])
    sums = episode_sums(made.tokens)
    assert sums.mean_for(torch.tensor([-1, 3])).tolist() == pytest.approx([0.0, 0.4])
    with pytest.raises(DataError, match=r"episodes \[4\]"):
        sums.mean_for(torch.tensor([3, 4]))
    with pytest.raises(DataError, match="at least one micro-batch"):
        merge_episode_sums([])


def test_episode_means_of_another_shape_are_refused() -> None:
    made = window([Reply([0.4], 1.0)])
    with pytest.raises(DataError, match="one mean per row"):
        importance_ratio(made.tokens, TRAJECTORY, torch.zeros(1, 2))


@settings(deadline=None)
@given(reply_lists(), st.sampled_from(list(ImportanceLevel)))
def test_full_context_rows_equal_the_same_turns_as_window_rows(
    replies: list[Reply], level: ImportanceLevel
) -> None:
    left, right = window(replies), full(replies, lead=3, gap=2)
    one, two = (
        by_turn(left, importance_ratio(left.tokens, level)),
        by_turn(right, importance_ratio(right.tokens, level)),
    )
    for turn in one:
        assert one[turn] == pytest.approx(two[turn], abs=1e-12)


def test_half_precision_is_computed_in_float32() -> None:
    made = window([Reply([0.1, 0.2], 1.0)])
    tokens = replace(made.tokens, logp_new=made.tokens.logp_new.to(torch.bfloat16))
    assert importance_ratio(tokens, TURN).dtype == torch.float32

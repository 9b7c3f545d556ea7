from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError
from tests.trainers.tensors import Leaf, Reply, batch, full, reply_lists, window
from trainers.settings.algorithm import (
    ALGORITHMS,
    Aggregation,
    AlgorithmConfig,
    ClipRule,
    ImportanceLevel,
    KLKind,
)
from trainers.update.losses import CLIPS, LossOutput, policy_loss, policy_term
from trainers.update.ratios import episode_sums, merge_episode_sums
from trainers.update.regularisers import token_kl
from trainers.update.token_batch import MinibatchTotals

PLAIN = AlgorithmConfig()
BAND = replace(ALGORITHMS["gspo"], kl_coef=0.0)
REFERENCE = [
    Reply([0.002, 0.006], 1.0),
    Reply([-0.010, 0.002, -0.004], -1.0),
    Reply([0.020], -0.5),
]


def totals(made: Leaf) -> MinibatchTotals:
    return MinibatchTotals.of(made.tokens.mask, made.tokens.segment)


def loss_of(made: Leaf, config: AlgorithmConfig) -> LossOutput:
    return policy_loss(made.tokens, config, totals(made))


def first_of_turns(made: Leaf, values: torch.Tensor) -> list[float]:
    return [float(values[spots[0]].detach()) for spots in made.places.values()]


def test_turn_level_reference_losses() -> None:
    made = window(REFERENCE)
    output = loss_of(made, BAND)
    assert first_of_turns(made, policy_term(made.tokens, BAND).loss) == pytest.approx(
        [-1.004, 0.997, 0.510101], abs=1e-6
    )
    assert output.loss.item() == pytest.approx(0.167700, abs=1e-6)
    token_mean = loss_of(window(REFERENCE), replace(BAND, aggregation="token_mean"))
    assert token_mean.loss.item() == pytest.approx(0.248850, abs=1e-6)


def test_turn_level_reference_gradients_are_off_off_on() -> None:
    made = window(REFERENCE)
    output = loss_of(made, BAND)
    output.loss.backward()
    grad = made.grad()
    assert grad[0] == [0, 0]
    assert grad[1] == [0, 0, 0]
    assert grad[2][0] == pytest.approx(0.5 * 1.020201 / 3, abs=1e-6)
    assert first_of_turns(made, output.gradient_off) == [1, 1, 0]
    assert first_of_turns(made, output.above) == [1, 0, 1]
    assert first_of_turns(made, output.below) == [0, 1, 0]


def test_a_sequence_mask_of_3e_3_drops_only_the_second_reference_row() -> None:
    made = window(REFERENCE)
    output = loss_of(made, replace(BAND, sequence_mask_delta=3e-3))
    assert first_of_turns(made, output.sequence_masked) == [0, 1, 0]
    # The denominator stays 3: masking one row does not re-weight the others.
    assert output.loss.item() == pytest.approx((-1.004 + 0.510101) / 3, abs=1e-6)


def test_sequence_mask_keeps_rising_and_drops_falling_negative_rows() -> None:
    made = window([Reply([0.5, 0.5], -1.0), Reply([-0.5, -0.5], -1.0), Reply([-0.5], 1.0)])
    output = loss_of(made, replace(PLAIN, sequence_mask_delta=0.223))
    assert first_of_turns(made, output.sequence_masked) == [0, 1, 0]


def test_sequence_mask_leaves_kl_and_entropy_alone() -> None:
    reply = Reply([-0.5, -0.5], -1.0)
    config = replace(PLAIN, kl_coef=0.1, entropy_coef=0.01)
    plain = loss_of(window([reply]), config)
    masked = loss_of(window([reply]), replace(config, sequence_mask_delta=0.223))
    assert float(masked.policy) == 0
    assert float(masked.kl) == float(plain.kl) > 0
    assert float(masked.entropy) == float(plain.entropy) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "expected", "grad"),
    [
        (0.1, 1.0, -math.exp(0.1), -math.exp(0.1)),
        (0.5, 1.0, -1.2, 0.0),
        (-0.5, 1.0, -math.exp(-0.5), -math.exp(-0.5)),
        (-0.5, -1.0, 0.8, 0.0),
        (0.5, -1.0, math.exp(0.5), math.exp(0.5)),
        (2.0, -1.0, 3.0, 0.0),
        (0.5, 0.0, 0.0, 0.0),
    ],
)
def test_ppo_with_dual_clip_on_one_token(log_ratio: float, advantage: float, expected: float, grad: float) -> None:
    made = window([Reply([log_ratio], advantage)])
    output = loss_of(made, replace(PLAIN, dual_clip=3.0))
    output.loss.backward()
    assert output.loss.item() == pytest.approx(expected)
    assert made.grad()[0] == pytest.approx([grad])
    assert bool(output.gradient_off[made.places[0][0]]) == (grad == 0.0)


def test_cispo_keeps_the_gradient_of_clipped_tokens() -> None:
    made = window([Reply([1.0, -3.0], 2.0, old=[-2.0, -1.0])])
    output = loss_of(made, replace(ALGORITHMS["cispo"], kl_coef=0.0))
    output.loss.backward()
    weights = [1.2, math.exp(-3.0)]
    assert output.loss.item() == pytest.approx(-(weights[0] * 2 * -1.0 + weights[1] * 2 * -4.0) / 2)
    assert made.grad()[0] == pytest.approx([-weights[0], -weights[1]])
    assert not output.gradient_off.any()


def test_sapo_gates_by_the_sign_of_the_turn() -> None:
    made = window([Reply([0.3], 1.0), Reply([0.3], -1.0)])
    config = replace(ALGORITHMS["sapo"], kl_coef=0.0, aggregation="seq_mean_token_sum")

    def gate(tau: float) -> float:
        return 4 / tau / (1 + math.exp(-tau * (math.exp(0.3) - 1)))

    term = policy_term(made.tokens, config)
    assert first_of_turns(made, term.loss) == pytest.approx([-gate(1.0), gate(1.05)])


def test_sapo_gates_by_the_mean_of_the_turn_and_not_by_the_token() -> None:
    # Tokens of +3 and -1, of mean +1: both have the temperature of positive turns. Then -3 and +1, the reverse.
    made = window([Reply([0.3, 0.3], 1.0), Reply([0.3, 0.3], -1.0)])
    advantage = made.tokens.advantage.clone()
    for turn, values in ((0, (3.0, -1.0)), (1, (-3.0, 1.0))):
        for place, value in zip(made.places[turn], values, strict=True):
            advantage[place] = value
    config = replace(ALGORITHMS["sapo"], kl_coef=0.0, sapo_tau_negative=2.0)
    term = policy_term(replace(made.tokens, advantage=advantage), config)

    def gate(tau: float) -> float:
        return 4 / tau / (1 + math.exp(-tau * (math.exp(0.3) - 1)))

    losses = [[term.loss[place].item() for place in made.places[turn]] for turn in (0, 1)]
    assert losses[0] == pytest.approx([-3 * gate(1.0), gate(1.0)])
    assert losses[1] == pytest.approx([3 * gate(2.0), -gate(2.0)])


def test_sapo_gradient_at_ratio_one_is_the_policy_gradient() -> None:
    grads = []
    for config in (replace(ALGORITHMS["sapo"], kl_coef=0.0), ALGORITHMS["reinforce"]):
        made = window([Reply([0.0, 0.0], 1.5), Reply([0.0], -0.5)])
        loss_of(made, config).loss.backward()
        grads.append(made.grad())
    for turn in grads[0]:
        assert grads[0][turn] == pytest.approx(grads[1][turn])


def test_no_clip_is_the_plain_policy_gradient() -> None:
    made = window([Reply([0.7], 2.0, old=[-1.0])])
    output = loss_of(made, ALGORITHMS["reinforce"])
    output.loss.backward()
    assert output.loss.item() == pytest.approx(-2.0 * -0.3)
    assert made.grad()[0] == pytest.approx([-2.0])


def test_aggregations_on_replies_of_unequal_length() -> None:
    replies = [Reply([0.0], -2.0), Reply([0.0, 0.0, 0.0], -1.0)]
    expected = {
        Aggregation.TOKEN_MEAN: (2 + 3) / 4,
        Aggregation.SEQ_MEAN_TOKEN_MEAN: (2 + 1) / 2,
        Aggregation.SEQ_MEAN_TOKEN_SUM: (2 + 3) / 2,
        Aggregation.SEQ_MEAN_TOKEN_SUM_NORM: (2 + 3) / 2 / 10,
    }
    for aggregation, value in expected.items():
        config = replace(PLAIN, aggregation=aggregation, norm_length=10)
        assert loss_of(window(replies), config).loss.item() == pytest.approx(value)


@pytest.mark.parametrize("kind", [KLKind.K2, KLKind.K3])
def test_kl_is_zero_at_the_reference_and_clamped_far_from_it(kind: KLKind) -> None:
    d = torch.tensor([0.0, 1.0, -1.0, 50.0, -50.0], dtype=torch.float64)
    expected = {
        KLKind.K2: [0.0, 0.5, 0.5, 10.0, 10.0],
        KLKind.K3: [0.0, math.e - 2, 1 / math.e, 10.0, 10.0],
    }
    assert token_kl(d, kind).tolist() == pytest.approx(expected[kind])


def test_kl_gradients_are_those_of_the_two_divergences() -> None:
    # Three tokens, exact expectation over the vocabulary instead of samples.
    logits = torch.tensor([0.3, -0.2, 0.8], dtype=torch.float64, requires_grad=True)
    ref = torch.log_softmax(torch.tensor([0.1, 0.4, -0.5], dtype=torch.float64), 0)

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(loss, logits)[0]

    logp = torch.log_softmax(logits, 0)
    weight = logp.detach().exp()
    k2 = gradient((weight * token_kl(ref - logp, KLKind.K2)).sum())
    k3 = gradient((weight * token_kl(ref - torch.log_softmax(logits, 0), KLKind.K3)).sum())
    logp = torch.log_softmax(logits, 0)
    reverse = gradient((logp.exp() * (logp - ref)).sum())
    logp = torch.log_softmax(logits, 0)
    forward = gradient((ref.exp() * (ref - logp)).sum())
    torch.testing.assert_close(k2, reverse)
    torch.testing.assert_close(k3, forward)


def test_kl_and_entropy_enter_with_their_coefficients() -> None:
    reply = Reply([0.0, 0.0], 0.0, ref=[-1.5, -1.0], entropy=[0.2, 0.6])
    output = loss_of(window([reply]), replace(PLAIN, kl_coef=0.1, entropy_coef=0.01))
    kl = (math.exp(-0.5) - 0.5) / 2
    assert float(output.kl) == pytest.approx(kl)
    assert output.loss.item() == pytest.approx(0.1 * kl - 0.01 * 0.4)


def test_an_entropy_bonus_of_a_thousandth_on_two_turns_takes_a_thousandth_off_the_loss() -> None:
    # Mean entropies of 0.8 and 1.2 nats; under the mean over turns their mean is 1.
    made = window([Reply([0.0, 0.0], 0.0, entropy=[0.7, 0.9]), Reply([0.0], 0.0, entropy=[1.2])])
    config = replace(ALGORITHMS["sampo"], kl_coef=0.0, entropy_coef=1e-3)
    assert loss_of(made, config).loss.item() == pytest.approx(-0.001, abs=1e-9)


def test_a_regulariser_without_its_tensor_is_refused() -> None:
    made = window([Reply([0.0], 1.0)])
    with pytest.raises(ConfigError, match="kl_coef > 0 needs logp_ref"):
        policy_loss(replace(made.tokens, logp_ref=None), replace(PLAIN, kl_coef=0.1), totals(made))
    with pytest.raises(ConfigError, match="entropy_coef > 0 needs entropy"):
        policy_loss(replace(made.tokens, entropy=None), replace(PLAIN, entropy_coef=0.1), totals(made))


configs = st.builds(
    AlgorithmConfig,
    importance_level=st.sampled_from(list(ImportanceLevel)),
    clip=st.sampled_from([rule for rule in ClipRule if rule is not ClipRule.NONE]),
    eps_low=st.sampled_from([3e-3, 0.2]),
    eps_high=st.sampled_from([4e-3, 0.2]),
    dual_clip=st.sampled_from([None, 3.0]),
    aggregation=st.sampled_from(list(Aggregation)),
    sequence_mask_delta=st.sampled_from([None, 3e-3, 0.223]),
    kl_kind=st.sampled_from([KLKind.K2, KLKind.K3]),
    kl_coef=st.sampled_from([0.0, 0.01]),
    entropy_coef=st.sampled_from([0.0, 0.01]),
) | st.just(replace(ALGORITHMS["reinforce"], kl_coef=0.01))


def flat(parts: list[Leaf]) -> np.ndarray:
    grads = {turn: values for part in parts for turn, values in part.grad().items()}
    return np.concatenate([grads[turn] for turn in sorted(grads)])


def check_equal(whole: Leaf, parts: list[Leaf], config: AlgorithmConfig) -> None:
    """Loss and gradient of the parts add up to those of the whole."""
    expected = loss_of(whole, config).loss
    expected.backward()
    denominators = MinibatchTotals.sum(totals(part) for part in parts)
    sums = merge_episode_sums(episode_sums(part.tokens) for part in parts)
    total = 0.0
    for part in parts:
        means = sums.mean_for(part.tokens.episode)
        loss = policy_loss(part.tokens, config, denominators, means).loss
        loss.backward()
        total += loss.item()
    assert total == pytest.approx(expected.item(), abs=1e-10, rel=0)
    left, right = flat([whole]), flat(parts)
    assert np.linalg.norm(left - right) <= 1e-6 * max(np.linalg.norm(left), 1e-12)


@settings(deadline=None, max_examples=80)
@given(reply_lists(), configs, st.data())
def test_loss_does_not_depend_on_micro_batches_padding_or_row_order(
    replies: list[Reply], config: AlgorithmConfig, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(replies))))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(replies) - 1, 1)), max_size=3)))
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(replies)], strict=True):
        rows = [[(turn, replies[turn])] for turn in order[start:end]]
        if rows:
            padding = data.draw(st.integers(0, 4))
            parts.append(batch(rows, lead=padding, tail=3 - min(padding, 3)))
    check_equal(window(replies), parts, config)


@settings(deadline=None, max_examples=50)
@given(reply_lists(), configs)
def test_full_context_rows_equal_the_same_turns_as_window_rows(
    replies: list[Reply], config: AlgorithmConfig
) -> None:
    check_equal(window(replies), [full(replies, lead=2, gap=3)], config)


@settings(deadline=None, max_examples=50)
@given(reply_lists(), configs)
def test_masked_positions_contribute_exactly_zero(replies: list[Reply], config: AlgorithmConfig) -> None:
    made = window(replies, lead=6, tail=7)
    off = ~made.tokens.sampled
    output = loss_of(made, config)
    output.loss.backward()
    assert math.isfinite(output.loss.item())
    assert made.leaf.grad is not None
    assert torch.isfinite(made.leaf.grad).all()
    assert not made.leaf.grad[off].any()
    assert not policy_term(made.tokens, config).loss[off].any()
    for name in ("ratio", "log_ratio", "kl_reference", "above", "below", "gradient_off"):
        assert not getattr(output, name)[off].any(), name


@settings(deadline=None, max_examples=50)
@given(reply_lists(), configs)
def test_gradient_off_marks_exactly_the_tokens_without_policy_gradient(
    replies: list[Reply], config: AlgorithmConfig
) -> None:
    made = window(replies)
    output = loss_of(made, replace(config, kl_coef=0.0, entropy_coef=0.0))
    output.loss.backward()
    assert made.leaf.grad is not None
    on = made.tokens.sampled
    assert torch.equal(made.leaf.grad[on] == 0, output.gradient_off[on])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_minibatch_without_sampled_tokens_has_loss_zero_and_a_zero_gradient(name: str) -> None:
    made = window([Reply([0.1, 0.2], 1.0), Reply([0.3], -1.0)])
    tokens = replace(made.tokens, mask=torch.zeros_like(made.tokens.mask))
    config = replace(ALGORITHMS[name], entropy_coef=0.01)
    output = policy_loss(tokens, config, MinibatchTotals(0, 0))
    assert output.loss.item() == 0
    assert output.loss.requires_grad
    output.loss.backward()
    assert made.leaf.grad is not None
    assert not made.leaf.grad.any()


def test_masking_a_turn_does_not_reweight_the_others_in_sequence_means() -> None:
    made = window([Reply([0.0], 1.0), Reply([0.0, 0.0], -1.0)])
    mask = made.tokens.mask.clone()
    mask[1] = 0
    counted = MinibatchTotals.of(mask, made.tokens.segment)
    output = policy_loss(replace(made.tokens, mask=mask), BAND, counted)
    assert output.loss.item() == pytest.approx(-1.0 / 2)


def test_sampo_and_its_trajectory_form_agree_on_one_turn_episodes_only() -> None:
    single = [Reply([0.001, 0.02], 1.0, episode=0), Reply([-0.01], -1.0, episode=1)]
    double = [replace(reply, episode=0) for reply in single]
    values = {}
    for key, replies in (("single", single), ("double", double)):
        for name in ("sampo", "sampo_trajectory"):
            values[key, name] = loss_of(window(replies), ALGORITHMS[name]).loss.item()
    assert values["single", "sampo"] == values["single", "sampo_trajectory"]
    assert values["double", "sampo"] != values["double", "sampo_trajectory"]


def test_trajectory_level_may_turn_off_a_turn_that_stayed_inside_its_band() -> None:
    replies = [Reply([0.0], 1.0), Reply([0.03], 1.0)]
    config = replace(ALGORITHMS["sampo_trajectory"], kl_coef=0.0)
    made = window(replies)
    loss_of(made, config).loss.backward()
    assert made.grad() == {0: [0.0], 1: [0.0]}
    made = window(replies)
    loss_of(made, BAND).loss.backward()
    assert made.grad()[0][0] != 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_two_evaluations_without_an_update_are_bitwise_equal(name: str) -> None:
    replies = [Reply([0.0, 0.0], 1.0), Reply([0.0], -0.5, episode=1)]
    losses = [loss_of(window(replies), ALGORITHMS[name]).loss.item() for _ in range(2)]
    assert losses[0] == losses[1]


def test_half_precision_inputs_give_a_float32_loss() -> None:
    made = window(REFERENCE)
    tokens = replace(made.tokens, logp_new=made.tokens.logp_new.detach().to(torch.bfloat16).requires_grad_())
    assert policy_loss(tokens, BAND, totals(made)).loss.dtype == torch.float32


def test_every_clip_rule_has_a_loss() -> None:
    assert set(CLIPS) == set(ClipRule)

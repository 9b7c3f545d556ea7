from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
import torch

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.toys import random_rows, tiny_policy
from trainers.cold_start.cloning import Cloning, reply_weights, weigh
from trainers.policy.token_rows import TokenRow
from trainers.rollout.samplers.hf import HFSampler
from trainers.run.checkpoint import CheckpointStore
from trainers.settings.cloning import CloningSettings
from trainers.settings.sampling import SamplingSettings
from trainers.settings.schedule import Schedule

FAST = CloningSettings(epochs=2, batch_size=4, learning_rate=3e-3, warmup=0.1)


def test_markup_weighs_less_than_what_decides():
    policy = tiny_policy()
    end = policy.tokenizer.eos_token_id
    reply = [*policy.encode("<think>box left</think> so <action>push left</action>"), end]
    pieces = [policy.decode([token]) for token in reply]
    weights = dict(zip(pieces, reply_weights(policy, reply, 0.3), strict=True))
    assert weights["<action>"] == weights["</action>"] == weights["<think>"] == weights["<|end|>"] == 0.3
    assert weights["push"] == weights[" left"] == 1.0
    assert weights["s"] == 0.3 or weights.get(" so") == 0.3


def test_a_reply_without_tags_weighs_fully_except_for_its_end():
    policy = tiny_policy()
    reply = [*policy.encode("push left"), policy.tokenizer.eos_token_id]
    assert reply_weights(policy, reply, 0.3) == (1.0, 1.0, 0.3)


def test_tokens_that_carry_part_of_a_character_are_weighed_by_place():
    policy = tiny_policy()
    reply = policy.encode("<action>你</action>")
    assert len(reply) > 3
    assert reply_weights(policy, reply, 0.0)[1:-1] == (1.0,) * (len(reply) - 2)


def test_every_reply_of_a_conversation_is_weighed_and_prompts_are_not():
    policy = tiny_policy()
    one, two = policy.encode("<action>up</action>"), policy.encode("<action>push left</action>")
    row = TokenRow((5, *one, 6, 6, *two), (False, *[True] * 3, False, False, *[True] * 4))
    given = dataclasses.replace(row, weights=(0.5,) * 10)
    weighed, kept = weigh(policy, [row, given], 0.3)
    assert weighed.weights == (0.0, 0.3, 1.0, 0.3, 0.0, 0.0, 0.3, 1.0, 1.0, 0.3)
    assert weighed.ids == row.ids
    assert kept is given


def clone(policy, rows, settings, seed=0):
    """Take all steps of a cloning, and return what they measured."""
    return list(Cloning(policy, rows, settings, seed=seed).steps())


def lesson(policy, count=64):
    """Return rows whose action is named by the prompt."""
    generator = random.Random(0)
    rows = []
    for _ in range(count):
        word = generator.choice(["up", "down"])
        prompt = policy.encode_chat([{"role": "user", "content": f"Actions: {word}"}])
        rows.append(TokenRow.from_reply(prompt, [*policy.encode(f"<action>{word}</action>"), 1]))
    return rows


def test_cloning_learns_what_the_expert_does():
    policy = tiny_policy()
    rows = lesson(policy)
    settings = dataclasses.replace(FAST, epochs=8, batch_size=8, learning_rate=1e-2)
    cloning = Cloning(policy, rows, settings)
    steps = list(cloning.steps())
    assert len(steps) == cloning.total == 64
    assert steps[0].loss > 4.0 > 0.1 > steps[-1].loss
    assert sum(step.accuracy for step in steps[-6:]) / 6 > 0.95
    assert steps[-1].content_accuracy > 0.95
    greedy = SamplingSettings(max_reply_tokens=8, greedy=True)
    prompt = policy.encode_chat([{"role": "user", "content": "Actions: down"}])
    (sample,) = HFSampler(policy).generate([prompt], greedy)
    assert policy.decode(sample.ids) == "<action>down</action><|end|>"


def test_one_seed_gives_the_same_weights_and_leaves_the_global_generator_alone():
    def run(seed):
        policy = tiny_policy()
        clone(policy, lesson(policy, 12), FAST, seed=seed)
        return policy.checksum()

    state = torch.get_rng_state()
    assert run(3) == run(3) != run(4)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_broken_cloning_goes_on_to_the_weights_of_an_unbroken_one(stop, tmp_path):
    whole = tiny_policy()
    rows = lesson(whole, 11)
    steps = clone(whole, rows, FAST, seed=3)
    store = CheckpointStore(tmp_path)
    broken = Cloning(tiny_policy(), rows, FAST, seed=3)
    begun = list(itertools.islice(broken.steps(), stop))
    broken.save(store)
    policy = tiny_policy()
    again = Cloning(policy, rows, FAST, seed=3)
    assert again.resume(store.latest())
    assert [*begun, *again.steps()] == steps
    assert policy.checksum() == whole.checksum()
    other = Cloning(tiny_policy(), rows[:4], FAST, seed=3)
    assert not other.resume(store.latest())
    assert other.done == 0


def test_the_schedule_reaches_the_optimiser():
    def run(schedule):
        policy = tiny_policy()
        settings = dataclasses.replace(FAST, warmup=0.0, schedule=schedule)
        result = clone(policy, lesson(policy, 12), settings)
        return policy.checksum(), [step.learning_rate for step in result]

    (cosine, rates), (constant, flat) = run(Schedule.COSINE), run(Schedule.CONSTANT)
    assert cosine != constant
    assert rates == [dataclasses.replace(FAST, warmup=0.0).rate(n, 6) for n in range(6)]
    assert flat == [FAST.learning_rate] * 6


def test_microbatches_change_no_result():
    def run(budget):
        policy = tiny_policy()
        rows = random_rows(policy, [(4, 3), (9, 2), (2, 7), (5, 5)])
        result = clone(policy, rows, dataclasses.replace(FAST, max_tokens_per_microbatch=budget))
        return result, torch.cat([value.detach().flatten() for value in policy.parameters()])

    (whole, weights), (cut, cut_weights) = run(10_000), run(1)
    assert [step.loss for step in cut] == pytest.approx([step.loss for step in whole], abs=1e-5)
    assert [step.accuracy for step in cut] == [step.accuracy for step in whole]
    torch.testing.assert_close(cut_weights, weights, atol=2e-4, rtol=0)


def test_gradients_are_clipped_unless_the_limit_is_0():
    def run(limit):
        policy = tiny_policy()
        clone(policy, lesson(policy, 12), dataclasses.replace(FAST, max_grad_norm=limit))
        return policy.checksum()

    assert run(0.0) == run(1e9) != run(1e-9)


def test_tokens_of_weight_zero_teach_nothing():
    policy = tiny_policy()
    row = TokenRow.from_reply([2, 3], [4, 5], weights=[0.0, 0.0])
    before = policy.checksum()
    clone(policy, [row], FAST)
    assert policy.checksum() == before


def test_prompts_alone_cannot_be_cloned():
    policy = tiny_policy()
    with pytest.raises(DataError, match="reply tokens"):
        clone(policy, [TokenRow((1, 2), (False, False))], FAST)


def test_the_rate_rises_then_follows_its_schedule():
    settings = CloningSettings(learning_rate=1.0, warmup=0.1)
    rates = [settings.rate(step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * (n + 1) for n in range(10)])
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] < 0.001
    linear = dataclasses.replace(settings, schedule=Schedule.LINEAR)
    assert linear.rate(55, 100) == pytest.approx(0.5)
    constant = dataclasses.replace(settings, schedule=Schedule.CONSTANT, warmup=0.0)
    assert {constant.rate(step, 100) for step in range(100)} == {1.0}


@pytest.mark.parametrize(
    "wrong",
    [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": -1.0}, {"warmup": 2.0}, {"max_grad_norm": -1.0}],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        CloningSettings(**wrong)

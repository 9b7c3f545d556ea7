from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.info import FinishReason
from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.rollout.samplers.hf import HFSampler, choose
from trainers.settings.sampling import SamplingSettings

PROMPT_LENGTHS = [(7, 0), (3, 0), (12, 0), (3, 0), (9, 0)]


def prompts_of(policy, copies=4):
    return [row.ids for row in random_rows(policy, PROMPT_LENGTHS) for _ in range(copies)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_recorded_log_probabilities_equal_the_trainers(temperature):
    policy = tiny_policy()
    prompts = prompts_of(policy)
    settings = SamplingSettings(temperature=temperature, max_reply_tokens=9, record_entropy=True)
    samples = HFSampler(policy).generate(prompts, settings, seeded())
    rows = [
        TokenRow.from_reply(prompt, sample.ids, segment=index, logprobs=sample.logprobs)
        for index, (prompt, sample) in enumerate(zip(prompts, samples, strict=True))
    ]
    batch = pad_rows(rows, policy.pad_id)
    stats = policy.token_stats(batch, temperature)
    torch.testing.assert_close(stats.logp, batch.sampler_logp, atol=1e-4, rtol=0)
    entropies = [torch.tensor(sample.entropies) for sample in samples]
    torch.testing.assert_close(stats.entropy[batch.mask], torch.cat(entropies), atol=1e-4, rtol=0)


def ending_policy():
    """Return a policy whose replies end after a few tokens, at different places."""
    policy = tiny_policy()
    (end,) = policy.eos_ids
    with torch.no_grad():
        weight = policy.model.get_output_embeddings().weight
        weight.mul_(8.0)
        weight[end] = weight.mean(0) * 3.0
    return policy


def test_replies_end_at_the_end_token_or_at_the_limit_and_say_which():
    policy = ending_policy()
    settings = SamplingSettings(max_reply_tokens=24, temperature=2.0)
    samples = HFSampler(policy).generate(prompts_of(policy, 40), settings, seeded(3))
    assert {sample.finish_reason for sample in samples} == set(FinishReason)
    for sample in samples:
        assert not policy.eos_ids & set(sample.ids[:-1])
        assert (sample.ids[-1] in policy.eos_ids) == (sample.finish_reason is FinishReason.STOP)
        assert len(sample.ids) == len(sample.logprobs)
        assert sample.finish_reason is FinishReason.STOP or len(sample.ids) == 24


def test_a_reply_does_not_depend_on_the_batch_it_is_drawn_in():
    policy = ending_policy()
    prompts = prompts_of(policy, 12)
    settings = SamplingSettings(max_reply_tokens=24, temperature=2.0)
    wide = HFSampler(policy).generate(prompts, settings, seeded())
    assert len({len(sample.ids) for sample in wide}) > 3
    narrow = HFSampler(policy, max_batch=3).generate(prompts, settings, seeded())
    assert [s.ids for s in wide] == [s.ids for s in narrow]
    for one, other in zip(wide, narrow, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_one_generator_a_prompt_makes_a_reply_independent_of_its_neighbours():
    policy = ending_policy()
    prompts = prompts_of(policy, 2)
    settings = SamplingSettings(max_reply_tokens=12, temperature=2.0)
    sampler = HFSampler(policy)
    together = sampler.generate(prompts, settings, [seeded(n) for n in range(len(prompts))])
    for index in (0, 4, 9):
        (alone,) = sampler.generate([prompts[index]], settings, [seeded(index)])
        assert alone.ids == together[index].ids
    with pytest.raises(ConfigError, match="expected one generator or 10, one a prompt; got 1"):
        sampler.generate(prompts, settings, [seeded()])


def test_equal_prompts_are_independent_draws():
    policy = tiny_policy()
    samples = HFSampler(policy).generate([(5, 6, 7)] * 8, SamplingSettings(max_reply_tokens=6), seeded())
    assert len({sample.ids for sample in samples}) == 8


def test_the_generator_alone_decides_and_the_global_one_is_left_alone():
    policy = ending_policy()
    prompts = prompts_of(policy)
    settings = SamplingSettings(max_reply_tokens=6)
    sampler = HFSampler(policy)
    state = torch.get_rng_state()
    generator = seeded()
    sampler.generate(prompts, settings, generator)
    resumed = torch.Generator()
    resumed.set_state(generator.get_state())
    second = sampler.generate(prompts, settings, generator)
    assert HFSampler(policy).generate(prompts, settings, resumed) == second
    assert torch.equal(state, torch.get_rng_state())
    assert sampler.generate(prompts, settings, seeded()) != second


def test_greedy_replies_take_the_likeliest_token_every_time():
    policy = tiny_policy()
    prompts = prompts_of(policy, 1)
    samples = HFSampler(policy).generate(prompts, SamplingSettings(max_reply_tokens=5, greedy=True))
    batch = pad_rows([TokenRow.from_reply(p, s.ids) for p, s in zip(prompts, samples, strict=True)], policy.pad_id)
    assert torch.equal(policy.token_stats(batch, greedy=True).greedy, batch.mask)


def test_one_optimiser_step_changes_the_checksum_and_the_greedy_reply():
    policy = tiny_policy()
    settings = SamplingSettings(max_reply_tokens=4, greedy=True)
    prompt = policy.encode_chat([{"role": "user", "content": "room"}])
    sampler = HFSampler(policy)
    (before,), checksum = sampler.generate([prompt], settings), sampler.checksum()
    wanted = policy.encode("<action>up</action>")
    assert list(before.ids) != wanted
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-2)
    (-policy.token_stats(pad_rows([TokenRow.from_reply(prompt, wanted)], policy.pad_id)).logp.sum()).backward()
    optimizer.step()
    sampler.sync(policy)
    (after,) = sampler.generate([prompt], settings)
    assert after.ids != before.ids
    assert sampler.checksum() == policy.checksum() != checksum


def test_syncing_to_another_policy_draws_from_its_weights():
    policy, other = tiny_policy(), ending_policy()
    settings = SamplingSettings(max_reply_tokens=8, greedy=True)
    prompts = prompts_of(policy, 1)
    sampler = HFSampler(policy)
    sampler.sync(other)
    assert sampler.checksum() == other.checksum()
    assert sampler.generate(prompts, settings) == HFSampler(other).generate(prompts, settings)


@given(st.integers(0, 10_000), st.integers(0, 6), st.floats(0.05, 1.0), st.floats(0.2, 3.0))
def test_truncation_keeps_the_likeliest_tokens_and_drops_the_rest(seed, top_k, top_p, temperature):
    generator = seeded(seed)
    logits = torch.randn(1, 6, generator=generator)
    settings = SamplingSettings(top_k=top_k, top_p=top_p, temperature=temperature)
    probabilities = torch.softmax(logits[0] / temperature, -1)
    order = probabilities.argsort(descending=True).tolist()
    allowed = order[:top_k] if top_k else order
    total = sum(probabilities[token].item() for token in allowed)
    nucleus, mass = [], 0.0
    for token in allowed:
        if mass >= top_p * total + 1e-6:
            break
        nucleus.append(token)
        mass += probabilities[token].item()
    uniform = torch.rand(64, generator=generator, dtype=torch.float64)
    uniform[:2] = torch.tensor([0.0, 1.0 - 2**-53])
    tokens, logp, _ = choose(logits.expand(64, -1), settings, uniform)
    assert set(tokens.tolist()) <= set(nucleus)
    torch.testing.assert_close(logp, probabilities.log()[tokens], atol=1e-5, rtol=0)


def test_draws_follow_the_distribution():
    logits = torch.tensor([[0.0, 1.0, -1.0, float("-inf")]])
    uniform = torch.rand(40_000, generator=seeded(), dtype=torch.float64)
    tokens, _, _ = choose(logits.expand(40_000, -1), SamplingSettings(temperature=0.5), uniform)
    shares = torch.bincount(tokens, minlength=4) / 40_000
    torch.testing.assert_close(shares, torch.softmax(logits[0] / 0.5, -1), atol=0.01, rtol=0)
    assert shares[3] == 0


@pytest.mark.parametrize("truncated", [{"top_p": 0.95}, {"top_k": 20}, {"greedy": True}])
def test_truncated_sampling_is_refused_for_training(truncated):
    with pytest.raises(ConfigError, match="full distribution"):
        SamplingSettings(**truncated).for_training()
    assert SamplingSettings(temperature=0.7).for_training().temperature == 0.7


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}, {"max_reply_tokens": 0}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SamplingSettings(**wrong)


def test_impossible_calls_are_refused():
    policy = tiny_policy()
    sampler = HFSampler(policy)
    with pytest.raises(ConfigError, match="sampling needs a"):
        sampler.generate([(1,)], SamplingSettings(max_reply_tokens=1))
    with pytest.raises(ConfigError, match="context of 256 tokens"):
        sampler.generate([(1,) * 250], SamplingSettings(max_reply_tokens=7), seeded())
    with pytest.raises(DataError, match="prompt 1 holds none"):
        sampler.generate([(1,), ()], SamplingSettings(max_reply_tokens=1), seeded())
    assert sampler.generate([], SamplingSettings()) == []


def test_with_a_generator_a_prompt_a_reply_does_not_depend_on_its_batch():
    policy = ending_policy()
    prompts = prompts_of(policy, 3)
    settings = SamplingSettings(max_reply_tokens=8, temperature=2.0)
    together = HFSampler(policy).generate(prompts, settings, [seeded(i) for i in range(len(prompts))])
    for index, prompt in enumerate(prompts):
        (alone,) = HFSampler(policy).generate([prompt], settings, [seeded(index)])
        assert alone.ids == together[index].ids


def test_generators_must_be_as_many_as_prompts():
    policy = tiny_policy()
    with pytest.raises(ConfigError, match="one a prompt"):
        HFSampler(policy).generate(prompts_of(policy, 1), SamplingSettings(), [seeded(0), seeded(1)])

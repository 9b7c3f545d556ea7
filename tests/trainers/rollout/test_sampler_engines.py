"""What every engine that draws replies must do; vLLM is tested where it and a GPU are there."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from agent_gym.core.info import FinishReason
from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.runs import metrics, new_run, small_config, train
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.lora import add_lora
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.policy.weights import weights_checksum, write_weights
from trainers.rollout.samplers.hf import HFSampler
from trainers.rollout.samplers.make import make_sampler
from trainers.settings.lora import LoraSettings
from trainers.settings.rollout import SamplerKind
from trainers.settings.sampling import SamplingSettings

SETTINGS = SamplingSettings(max_reply_tokens=6, temperature=0.8)


@pytest.fixture(scope="module", params=list(SamplerKind))
def kind(request):
    if request.param is SamplerKind.VLLM:
        if importlib.util.find_spec("vllm") is None:
            pytest.skip("vllm is not installed")
        if not torch.cuda.is_available():
            pytest.skip("vllm needs a GPU")
    return request.param


@pytest.fixture
def base(tmp_path):
    """A loaded policy: engines that copy weights start from the folder."""
    tiny_policy().save(tmp_path / "base")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Policy.load(tmp_path / "base", device=device)


def engine(kind, policy):
    config = small_config(f"rollout.sampler={kind.value}", "rollout.max_context_tokens=64")
    return make_sampler(policy, config.rollout)


def prompts(policy):
    return [row.ids for row in random_rows(policy, [(7, 0), (3, 0), (12, 0), (3, 0)])]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def step(policy):
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-2)
    (-policy.token_stats(pad_rows(random_rows(policy, [(3, 4), (5, 2)]), 0)).logp.mean()).backward()
    optimizer.step()


def scores(policy, asked, samples):
    rows = [
        TokenRow.from_reply(p, s.ids, segment=n, logprobs=s.logprobs)
        for n, (p, s) in enumerate(zip(asked, samples, strict=True))
    ]
    batch = pad_rows(rows, policy.pad_id, device=policy.device)
    return policy.token_stats(batch, SETTINGS.temperature, entropy=False).logp, batch.sampler_logp


@pytest.mark.slow
@pytest.mark.parametrize("adapters", [False, True], ids=["full", "adapters"])
def test_an_engine_draws_from_the_policy_as_it_is_after_each_update(kind, base, adapters):
    policy = add_lora(base, LoraSettings(rank=4, alpha=64)) if adapters else base
    sampler = engine(kind, policy)
    asked = prompts(policy)
    state = torch.get_rng_state()
    samples = sampler.generate(asked, SETTINGS, seeded())
    assert torch.equal(state, torch.get_rng_state())
    mine, theirs = scores(policy, asked, samples)
    torch.testing.assert_close(mine, theirs, atol=2e-2, rtol=0)
    before = sampler.checksum()

    step(policy)
    sampler.sync(policy)
    assert sampler.checksum() != before
    mine, theirs = scores(policy, asked, sampler.generate(asked, SETTINGS, seeded()))
    torch.testing.assert_close(mine, theirs, atol=2e-2, rtol=0)
    greedy = SamplingSettings(max_reply_tokens=6, greedy=True)
    expected = HFSampler(policy).generate(asked, greedy)
    assert [sample.ids for sample in sampler.generate(asked, greedy)] == [sample.ids for sample in expected]


@pytest.mark.slow
def test_replies_end_at_the_end_token_or_at_the_limit(kind, base):
    (end,) = base.eos_ids
    with torch.no_grad():
        weight = base.model.get_output_embeddings().weight
        weight.mul_(8.0)
        weight[end] = weight.mean(0) * 3.0
    sampler = engine(kind, base)
    samples = sampler.generate(prompts(base) * 8, SamplingSettings(max_reply_tokens=16, temperature=2.0), seeded())
    assert {sample.finish_reason for sample in samples} == set(FinishReason)
    for sample in samples:
        assert end not in sample.ids[:-1]
        assert (sample.ids[-1] == end) == (sample.finish_reason is FinishReason.STOP)
        assert len(sample.ids) == len(sample.logprobs)
        assert sample.finish_reason is FinishReason.STOP or len(sample.ids) == 16


@pytest.mark.slow
def test_equal_seeds_draw_equal_replies_and_other_seeds_others(kind, base):
    sampler = engine(kind, base)
    one, two, other = (sampler.generate(prompts(base), SETTINGS, seeded(seed)) for seed in (1, 1, 2))
    assert [sample.ids for sample in one] == [sample.ids for sample in two]
    assert [sample.ids for sample in one] != [sample.ids for sample in other]


def test_what_cannot_be_asked_for_is_refused(kind, base):
    sampler = engine(kind, base)
    assert sampler.generate([], SETTINGS, seeded()) == []
    with pytest.raises(ConfigError, match=r"torch\.Generator"):
        sampler.generate(prompts(base), SETTINGS)
    with pytest.raises(DataError, match="at least one token"):
        sampler.generate([()], SETTINGS, seeded())


def test_options_of_the_engine_are_checked():
    config = small_config("rollout.sampler=continuous", 'rollout.sampler_options={"seed": 1}')
    with pytest.raises(ConfigError, match="must not hold 'seed'"):
        make_sampler(tiny_policy(), config.rollout)
    sampler = make_sampler(tiny_policy(), small_config("rollout.sampler=continuous").rollout)
    with pytest.raises(ConfigError, match="no entropies"):
        sampler.generate([(1, 2)], SamplingSettings(record_entropy=True), seeded())


@pytest.mark.slow
def test_a_run_samples_with_the_engine_its_settings_name(tmp_path):
    folder = new_run(tmp_path / "run", "rollout.sampler=continuous", "iterations=1", "evaluation.episodes=2")
    train(folder)
    (row,) = metrics(folder.path)
    assert row["policy/sampler_gap"] < 1e-4


def test_weights_in_a_file_have_the_policys_checksum(tmp_path):
    from safetensors.torch import load_file

    policy = tiny_policy()  # its embeddings are tied: one tensor under two names
    written = write_weights(policy.model, tmp_path / "w.safetensors")
    assert written == policy.checksum() == weights_checksum(load_file(tmp_path / "w.safetensors"))
    step(policy)
    assert write_weights(policy.model, tmp_path / "w.safetensors") != written

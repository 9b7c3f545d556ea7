from __future__ import annotations

import pytest
import torch

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.lora import add_lora, merged
from trainers.policy.policy import Policy
from trainers.policy.token_rows import pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.run.checkpoint import CheckpointStore
from trainers.settings.lora import LoraSettings
from trainers.settings.sampling import SamplingSettings

pytest.importorskip("peft", reason="peft is not installed")

SMALL = LoraSettings(rank=4, alpha=8)


def trained(policy, steps=2):
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    for seed in range(steps):
        rows = random_rows(policy, [(3, 4), (5, 2)], seed=seed)
        (-policy.token_stats(pad_rows(rows, 0)).logp.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def test_adapters_start_out_changing_nothing_and_are_all_that_is_trained():
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, [(4, 3), (6, 2)]), 0)
    before = policy.token_stats(batch).logp.detach()
    state = torch.get_rng_state()
    adapted = add_lora(policy, SMALL)
    assert torch.equal(state, torch.get_rng_state())
    torch.testing.assert_close(adapted.token_stats(batch).logp, before)
    assert all("lora" in name for name, _ in adapted.named_parameters())
    trained(adapted)
    assert not torch.allclose(adapted.token_stats(batch).logp, before, atol=1e-3)
    assert add_lora(tiny_policy(), SMALL).checksum() == add_lora(tiny_policy(), SMALL).checksum()


def test_sampled_log_probabilities_equal_the_trainers_with_adapters():
    adapted = add_lora(tiny_policy(), SMALL)
    trained(adapted)
    rows = random_rows(adapted, [(5, 0), (3, 0)])
    samples = HFSampler(adapted).generate(
        [row.ids for row in rows], SamplingSettings(max_reply_tokens=6), torch.Generator().manual_seed(0)
    )
    for row, sample in zip(rows, samples, strict=True):
        both = type(row).from_reply(row.ids, sample.ids)
        stats = adapted.token_stats(pad_rows([both], 0))
        torch.testing.assert_close(stats.logp[0, len(row.ids) :], torch.tensor(sample.logprobs), atol=1e-4, rtol=0)


def test_adapters_load_on_their_base_and_merge_into_plain_weights(tmp_path):
    tiny_policy().save(tmp_path / "base")
    adapted = add_lora(Policy.load(tmp_path / "base", device="cpu"), SMALL)
    trained(adapted)
    adapted.save(tmp_path / "adapters")
    again = Policy.load(tmp_path / "adapters", device="cpu")
    assert again.checksum() == adapted.checksum()
    assert len(again.parameters()) == len(adapted.parameters())
    merged(adapted).save(tmp_path / "merged")
    alone = Policy.load(tmp_path / "merged", device="cpu")
    batch = pad_rows(random_rows(alone, [(4, 3)]), 0)
    torch.testing.assert_close(alone.token_stats(batch).logp, adapted.token_stats(batch).logp, atol=1e-5, rtol=0)
    assert adapted.has_adapters
    assert not alone.has_adapters


def test_a_run_with_adapters_resumes_to_the_same_weights(tmp_path):
    adapted = add_lora(tiny_policy(), SMALL)
    optimizer = trained(adapted)
    CheckpointStore(tmp_path).save(1, model=adapted, optimizer=optimizer)
    other = add_lora(tiny_policy(), LoraSettings(rank=4, alpha=8, seed=9))
    resumed = torch.optim.AdamW(other.parameters(), lr=1.0)
    assert other.checksum() != adapted.checksum()
    CheckpointStore(tmp_path).latest().restore(model=other, optimizer=resumed)
    assert other.checksum() == adapted.checksum()
    assert resumed.param_groups[0]["lr"] == 1e-2


def test_what_does_not_fit_is_refused(tmp_path):
    adapted = add_lora(tiny_policy(), SMALL)
    with pytest.raises(ConfigError, match="has adapters already"):
        add_lora(adapted)
    with pytest.raises(ConfigError, match="no adapter can be put on"):
        add_lora(tiny_policy(), LoraSettings(targets=("nothing_of_the_kind",)))
    with pytest.raises(ConfigError, match="must be positive"):
        LoraSettings(rank=0)
    with pytest.raises(DataError, match="holds no adapters"):
        adapted.load_weights(tmp_path)
    adapted.save(tmp_path)
    with pytest.raises(DataError, match="do not fit"):
        add_lora(tiny_policy(), LoraSettings(rank=2)).load_weights(tmp_path)
    with pytest.raises(DataError, match="do not name the model"):
        Policy.load(tmp_path, device="cpu")

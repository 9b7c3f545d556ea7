"""The vLLM sampler with a stand-in for the engine: how weights get there, and what is left behind.

The stand-in starts from random weights, as the engine does, and draws with the project's own sampler. The real
engine is tested in `test_sampler_engines` where it and a GPU are present.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from agent_gym.support.errors import WorkerError
from tests.trainers.runs import metrics, new_run, train
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.rollout.samplers.vllm import VLLMSampler
from trainers.settings.sampling import SamplingSettings


class Engine:
    """Answers as `vllm.LLM` does; `deaf` ones do not load what their worker reads."""

    deaf = False

    def __init__(self, model: str, tokenizer: str, load_format: str, worker_extension_cls: str, **_: Any) -> None:
        assert load_format == "dummy"
        with torch.random.fork_rng():
            made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model))
        self.policy = Policy(made, AutoTokenizer.from_pretrained(tokenizer), device="cpu")
        module, _, name = worker_extension_cls.rpartition(".")
        self.worker = getattr(importlib.import_module(module), name)()
        self.worker.model_runner = SimpleNamespace(model=self)

    def load_weights(self, pairs: Iterator[tuple[str, torch.Tensor]]) -> None:
        if not self.deaf:
            self.policy.model.load_state_dict(dict(pairs))

    def collective_rpc(self, name: str, args: tuple[Any, ...]) -> list[Any]:
        return [getattr(self.worker, name)(*args)]

    def reset_prefix_cache(self) -> None:
        """Nothing is cached."""

    def generate(self, prompts: Any, sampling_params: Any, **_: Any) -> list[Any]:
        asked = zip(prompts, sampling_params, strict=True)
        return [self._one(prompt["prompt_token_ids"], parameters) for prompt, parameters in asked]

    def _one(self, prompt: list[int], asked: Any) -> Any:
        settings = SamplingSettings(temperature=asked.temperature, max_reply_tokens=asked.max_tokens)
        draws = torch.Generator().manual_seed(asked.seed)
        (sample,) = HFSampler(self.policy).generate([prompt], settings, draws)
        values = zip(sample.ids, sample.logprobs, strict=True)
        said = [{token: SimpleNamespace(logprob=value)} for token, value in values]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=sample.ids, logprobs=said)])


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The stand-in is installed, and temporary files are made in this folder."""
    module = ModuleType("vllm")
    module.__spec__ = ModuleSpec("vllm", None)
    vars(module).update(LLM=Engine, SamplingParams=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", module)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@torch.no_grad()
def move(policy: Policy, seed: int) -> Policy:
    """Move the weights so far that the policy is sure of other things, as a trained one is."""
    draws = torch.Generator().manual_seed(seed)
    for value in policy.parameters():
        value.add_(0.5 * torch.randn(value.shape, generator=draws))
    return policy


def gap(policy: Policy, sampler: VLLMSampler) -> float:
    prompt = random_rows(policy, [(5, 0)])[0].ids
    settings = SamplingSettings(max_reply_tokens=8)
    (sample,) = sampler.generate([prompt], settings, torch.Generator().manual_seed(1))
    row = TokenRow.from_reply(prompt, sample.ids)
    scored = policy.token_stats(pad_rows([row], policy.pad_id), entropy=False).logp.detach()
    return float((scored[0, len(prompt) :] - torch.tensor(sample.logprobs)).abs().max())


def left(files: Path) -> list[Path]:
    return list(files.glob("agent-gym-vllm-*"))


def test_the_engine_has_the_policys_weights_after_every_sync_and_its_files_go(files: Path) -> None:
    policy = move(tiny_policy(), 0)
    sampler = VLLMSampler(policy, max_batch=4, max_tokens=64)
    assert sampler.checksum() == policy.checksum()
    assert gap(policy, sampler) < 1e-4
    move(policy, 1)
    assert gap(policy, sampler) > 1.0
    sampler.sync(policy)
    assert gap(policy, sampler) < 1e-4
    assert len(left(files)) == 1
    for _ in range(2):
        sampler.close()
        assert left(files) == []


def test_an_engine_that_does_not_take_the_weights_is_found_out(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "deaf", True)
    with pytest.raises(WorkerError, match=r"nats a token off the policy's, expected at most 0\.5"):
        VLLMSampler(move(tiny_policy(), 0), max_batch=4, max_tokens=64)
    assert left(files) == []


@pytest.mark.parametrize("stopped", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_run_leaves_no_files_of_the_engine(files: Path, tmp_path: Path, stopped: bool) -> None:
    folder = new_run(tmp_path / "run", "rollout.sampler=vllm", "iterations=1", "evaluation.episodes=2")
    train(folder, lambda: stopped)
    assert len(metrics(folder.path)) == (not stopped)
    assert all(row["policy/sampler_gap"] < 1e-4 for row in metrics(folder.path))
    assert left(files) == []

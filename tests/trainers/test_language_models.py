"""Runs that train a causal language model given by a path: adapters, mixed precision, recomputation."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers import runs
from tests.trainers.runs import new_run, small_config, train
from tests.trainers.toys import random_rows, tiny_policy
from trainers.cold_start.start import THOUGHTLESS
from trainers.loop import Trainer
from trainers.policy.loading import load_policy, load_trained, prepare_training
from trainers.policy.lora import AdapterReference, add_lora, reference_of
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.rollout.samplers.make import make_sampler
from trainers.run.reporter import SilentReporter
from trainers.settings.lora import LoraSettings
from trainers.update.batch import Batch
from trainers.update.types import MicroStep
from trainers.update.updater import Updater

pytest.importorskip("peft", reason="peft is not installed")

LORA = ("model.lora.rank=4", "model.lora.alpha=8", "optim.learning_rate=1e-2")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model folder as a user would name it: the small run's cloned policy."""
    folder = tmp_path_factory.mktemp("models") / "base"
    shutil.copytree(runs._cold_start() / "reference", folder)
    return folder


def kept_weights(reference):
    return sum(value.numel() for value in reference._kept or ())


def run(path, base, *overrides, iterations=2):
    return new_run(
        path,
        f"model.path={base}",
        "cloning.episodes=0",
        f"iterations={iterations}",
        *overrides,
        cold=False,
    )


def test_a_run_with_adapters_writes_adapters_only_and_resumes_to_the_same_weights(tmp_path, base):
    whole = run(tmp_path / "whole", base, *LORA, "algorithm.kl_coef=0.05")
    done = train(whole)
    for folder in (whole.reference, whole.checkpoints / "step-00000002" / "model"):
        assert (folder / "adapter_model.safetensors").is_file()
        assert not (folder / "model.safetensors").exists()
    names = load_file(whole.checkpoints / "step-00000002" / "optimizer.safetensors")
    assert names
    assert all("lora" in name for name in names)

    part = run(tmp_path / "part", base, *LORA, "algorithm.kl_coef=0.05")
    asked = iter([False, True])
    train(part, lambda: next(asked, True))
    assert part.config().iterations == 2
    assert train(part)["checksum"] == done["checksum"]
    assert runs.metrics(part.path) == runs.metrics(whole.path)


def test_cloning_trains_the_adapters_and_the_reference_is_the_policy_after_it(tmp_path, base):
    cloned = run(
        tmp_path / "run",
        base,
        *LORA,
        "cloning.episodes=8",
        "cloning.epochs=1",
        "algorithm.kl_coef=0.05",
        iterations=1,
    )
    summary = train(cloned)
    assert summary["cold_start"]["steps"] >= 1
    config = cloned.config()
    policy = load_trained(cloned.reference, config.model, "cpu")
    reference = reference_of(policy)
    assert isinstance(reference, AdapterReference)
    assert kept_weights(reference) == sum(value.numel() for value in policy.parameters())
    untouched = Policy.load(base, device="cpu")
    rows = pad_rows(random_rows(policy, [(5, 4)]), 0)
    assert not torch.allclose(reference.token_stats(rows).logp, untouched.token_stats(rows).logp, atol=1e-4)


@pytest.mark.parametrize("started", [False, True], ids=["empty adapters", "adapters with weights"])
def test_an_adapter_reference_scores_as_the_policy_did_and_leaves_it_alone(started):
    policy = add_lora(tiny_policy(), LoraSettings(rank=4, alpha=8))
    if started:
        step(policy)
    batch = pad_rows(random_rows(policy, [(4, 3), (6, 2)]), 0)
    before = policy.token_stats(batch).logp.detach()
    reference = reference_of(policy)
    weights = policy.n_parameters
    step(policy)
    after, checksum = policy.token_stats(batch).logp.detach(), policy.checksum()
    scored = reference.token_stats(batch, entropy=False)
    torch.testing.assert_close(scored.logp, before)
    assert not scored.logp.requires_grad
    assert policy.checksum() == checksum
    assert torch.equal(policy.token_stats(batch).logp, after)
    assert not torch.allclose(after, before, atol=1e-3)
    assert policy.n_parameters == weights
    assert (kept_weights(reference) > 0) == started


def test_without_adapters_the_reference_is_a_copy():
    policy = tiny_policy()
    assert isinstance(reference_of(policy), Policy)


def test_recomputed_activations_change_nothing_in_a_run(tmp_path, base):
    results = []
    for number, flag in enumerate(("false", "true")):
        results.append(
            train(run(tmp_path / str(number), base, f"optim.gradient_checkpointing={flag}", iterations=1))
        )
    assert results[0]["checksum"] == results[1]["checksum"]


def test_a_run_computes_in_sixteen_bits_while_its_weights_stay_whole(tmp_path, base):
    folder = run(tmp_path / "run", base, "model.dtype=float32", "model.autocast=bfloat16", iterations=1)
    train(folder)
    config = folder.config()
    policy = load_trained(folder.reference, config.model, "cpu")
    assert policy.autocast_dtype is torch.bfloat16
    assert {value.dtype for value in policy.parameters()} == {torch.float32}
    assert prepare_training(policy, config) == []
    (metrics,) = runs.metrics(folder.path)
    # On some processors the sampler's and the trainer's sixteen bits round alike, and the gap is 0.
    assert 0.0 <= metrics["policy/sampler_gap"] < 0.05
    rows = pad_rows(random_rows(policy, [(20, 10), (8, 4)]), policy.pad_id)
    whole = load_trained(folder.reference, replace(config.model, autocast=None), "cpu")
    gap = (policy.token_stats(rows).logp - whole.token_stats(rows).logp).abs().max()
    assert 0.0 < gap.item() < 0.05
    short = Policy.load(base, device="cpu", dtype="bfloat16")
    (note,) = prepare_training(short, config)
    assert "bfloat16" in note and "model.autocast=bfloat16" in note
    assert prepare_training(add_lora(short, LoraSettings()), config) == []


def test_weights_of_float16_are_not_trained(base):
    config = small_config(f"model.path={base}")
    half = Policy.load(base, device="cpu", dtype="float16")
    for policy in (half, add_lora(half, LoraSettings())):
        with pytest.raises(ConfigError, match=r"float16.*model\.dtype='bfloat16'"):
            prepare_training(policy, config)
    prepare_training(half, small_config(f"model.path={base}", "iterations=0", "cloning.episodes=0"))


class Listener(SilentReporter):
    """Remembers what was said and which phases had begun by then."""

    def __init__(self):
        self.heard = []

    def say(self, text):
        self.heard.append(text)

    def phase(self, name, total):
        self.heard.append(name)
        return super().phase(name, total)


@pytest.mark.parametrize(("thoughts", "episodes"), [("true", 4), ("false", 4), ("true", 0)])
def test_cloning_replies_without_thoughts_for_a_prompt_that_asks_for_them_is_said_first(
    tmp_path, base, thoughts, episodes
):
    folder = run(tmp_path / "run", base, f"env.thoughts={thoughts}", f"cloning.episodes={episodes}", iterations=0)
    listener = Listener()
    Trainer(folder, listener).run()
    warned = thoughts == "true" and episodes > 0
    assert (listener.heard[0] == THOUGHTLESS) == warned
    assert listener.heard.count(THOUGHTLESS) == warned


def test_settings_reach_the_model(base):
    config = small_config(
        f"model.path={base}", 'model.chat_template_kwargs={"enable_thinking": false}', "model.lora.rank=3"
    )
    policy = load_policy(config.model, "cpu")
    assert policy.chat_template_kwargs == {"enable_thinking": False}
    assert policy.model.peft_config["default"].r == 3
    assert config.model.lora is not None
    assert config.model.lora.alpha == 32.0


def test_settings_that_cannot_work_are_refused(base):
    with pytest.raises(ConfigError, match="adapts a pretrained model"):
        small_config("model.lora.rank=4")
    with pytest.raises(ConfigError, match="rank and alpha must be positive"):
        small_config(f"model.path={base}", "model.lora.rank=0")
    with pytest.raises(ConfigError, match="no setting"):
        small_config(f"model.path={base}", "model.lora.ranks=4")
    with pytest.raises(ConfigError, match="autocast"):
        small_config("model.autocast=int8")
    with pytest.raises(ConfigError, match="has no options"):
        small_config('rollout.sampler_options={"a": 1}')
    with pytest.raises(ConfigError, match="importance_cap must be a number of at least 1"):
        small_config("rollout.importance_cap=0.5")


def test_an_engine_that_is_not_installed_is_named_with_its_remedy(base):
    try:
        import vllm  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("vllm is installed")
    config = small_config("rollout.sampler=vllm")
    with pytest.raises(ConfigError, match=r"pip install 'agent-gym\[vllm\]'"):
        make_sampler(tiny_policy(), config.rollout)


# Truncated importance correction -------------------------------------------------------------------------


def losses(cap, gaps):
    """Return the loss and gradient norm of one step on rows whose sampler was off by `gaps` nats a token."""
    policy = tiny_policy()
    config = small_config("algorithm.kl_coef=0")
    rows = random_rows(policy, [(4, 3), (6, 3)])
    logp = policy.token_stats(pad_rows(rows, 0), entropy=False).logp.detach()
    given = []
    for number, row in enumerate(rows):
        prompt = len(row.ids) - 3
        said = [float(value) - gaps for value in logp[number, prompt : prompt + 3]]
        given.append(
            TokenRow.from_reply(row.ids[:prompt], row.ids[prompt:], segment=number, episode=number, logprobs=said)
        )
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.0)

    class Rate:
        def step(self):
            pass

    updater = Updater(
        policy, optimizer, Rate(), algorithm=config.algorithm, settings=config.optim, importance_cap=cap
    )
    batch = Batch((), None, tuple(given))
    events = list(updater.update(batch, torch.tensor([1.0, -0.5]).numpy(), 0))
    return sum(event.loss.loss.item() for event in events if isinstance(event, MicroStep)), events[-1].grad_norm


def test_the_correction_weighs_tokens_by_the_trainers_against_the_samplers_probability():
    loss, norm = losses(None, 0.3)
    same, same_norm = losses(2.0, 0.0)
    assert same == pytest.approx(loss, rel=1e-5)
    assert same_norm == pytest.approx(norm, rel=1e-5)
    factor = float(torch.tensor(0.3).exp())
    corrected, corrected_norm = losses(2.0, 0.3)
    assert corrected == pytest.approx(factor * loss, rel=1e-4)
    assert corrected_norm == pytest.approx(factor * norm, rel=1e-4)
    capped, capped_norm = losses(2.0, 5.0)
    assert capped == pytest.approx(2.0 * loss, rel=1e-4)
    assert capped_norm == pytest.approx(2.0 * norm, rel=1e-4)


def test_the_correction_needs_the_samplers_log_probabilities():
    policy = tiny_policy()
    config = small_config()
    rows = random_rows(policy, [(4, 3)])
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.0)
    updater = Updater(
        policy, optimizer, None, algorithm=config.algorithm, settings=config.optim, importance_cap=2.0
    )
    with pytest.raises(DataError, match="a row has none"):
        list(updater.update(Batch((), None, tuple(rows)), torch.tensor([1.0]).numpy(), 0))


def step(policy):
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    for seed in range(2):
        rows = random_rows(policy, [(3, 4), (5, 2)], seed=seed)
        (-policy.token_stats(pad_rows(rows, 0)).logp.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_folder_of_settings_holds_the_adapters_settings(tmp_path, base):
    folder = run(tmp_path / "run", base, *LORA)
    saved = json.loads((folder.path / "config.json").read_text("utf-8"))
    assert saved["model"]["lora"] == {"rank": 4, "alpha": 8.0, "targets": "all-linear", "seed": 0}
    assert folder.config() == folder.config()

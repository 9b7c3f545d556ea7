"""The arithmetic of memory and speed against models that are small enough to be measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from typer.testing import CliRunner

from agent_gym.cli.main import build_app
from agent_gym.support.errors import DataError
from tests.trainers.runs import small_config
from tests.trainers.toys import random_rows, tiny_policy
from trainers.estimate import (
    DEVICES,
    GIB,
    ModelShape,
    activation_values,
    estimate_memory,
    estimate_speed,
    longest_episode,
    model_shape,
    report,
    shape_of,
    workload_of,
)
from trainers.policy.policy import Policy
from trainers.policy.tiny import TinySpec, tiny_model
from trainers.policy.token_rows import pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.reading import read_preset, resolve_config
from trainers.settings.run import TrainConfig
from trainers.settings.sampling import SamplingSettings

DEVICE = DEVICES["H100-80GB"]


def shape(**changes: int) -> ModelShape:
    """Return the shape of a model of 7 thousand million weights."""
    values = {
        "parameters": 7_000_000_000,
        "trained": 7_000_000_000,
        "largest_block": 230_000_000,
        "layers": 28,
        "hidden": 3584,
        "inner": 18944,
        "query_width": 3584,
        "cache_width": 1024,
        "vocabulary": 152_064,
        "bytes_per_weight": 2,
        "bytes_per_value": 2,
    }
    return ModelShape(**{**values, **changes})


def config(*overrides: str) -> TrainConfig:
    return small_config("rollout.max_context_tokens=2048", "rollout.max_reply_tokens=512", *overrides)


def tensor_bytes(tensors: Any) -> int:
    return sum(value.numel() * value.element_size() for value in tensors)


@pytest.mark.parametrize("layers", [1, 3])
def test_weights_gradients_and_moments_are_those_of_a_step(layers: int) -> None:
    model = tiny_model(TinySpec(layers=layers), 512)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.arange(8)[None]).logits.sum().backward()
    optimizer.step()
    memory = estimate_memory(shape_of(model), config())
    assert memory.weights == tensor_bytes(model.parameters())
    assert memory.gradients == tensor_bytes(value.grad for value in model.parameters())
    moments = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
    assert memory.optimizer == tensor_bytes(moments)


def test_the_cache_is_that_of_the_model() -> None:
    from transformers import DynamicCache

    model = tiny_model(TinySpec(layers=3), 512)
    cache = DynamicCache(config=model.config)
    rows, width = 5, 20
    model(torch.zeros(rows, width, dtype=torch.int64), past_key_values=cache, use_cache=True)
    held = tensor_bytes(value for layer in cache.layers for value in (layer.keys, layer.values))
    found = shape_of(model)
    settings = small_config("rollout.groups=1", f"rollout.group_size={rows}", f"rollout.max_context_tokens={width}")
    assert estimate_memory(found, settings).cache == held


@pytest.mark.parametrize("recomputed", [False, True])
def test_activations_are_near_what_autograd_saves(recomputed: bool) -> None:
    policy = tiny_policy()
    if recomputed:
        policy.enable_gradient_checkpointing()
    width = 120
    saved: dict[int, int] = {}
    weights = {value.untyped_storage().data_ptr() for value in policy.model.parameters()}

    def keep(value: torch.Tensor) -> torch.Tensor:
        if value.is_floating_point() and value.untyped_storage().data_ptr() not in weights:
            saved[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    # One sampled token, so that the head keeps nothing worth counting.
    padded = pad_rows(random_rows(policy, [(width - 1, 1)] * 8), policy.pad_id)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        stats = policy.token_stats(padded, entropy=False)
    del stats
    found = shape_of(policy.model)
    block = (activation_values(found, False) - 2 * found.hidden) // found.layers
    expected = 8 * width * 4 * (activation_values(found, recomputed) - block * recomputed)
    assert 0.7 < sum(saved.values()) / expected < 1.4


class CastWeights(TorchDispatchMode):
    """Counts the bytes of weights that are cast to be computed with."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.shapes = {tuple(value.shape) for value in policy.model.parameters() if value.ndim == 2}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to) and found.dtype is torch.bfloat16:
            self.bytes += found.nbytes if tuple(found.shape) in self.shapes else 0
        return found


def test_weights_are_cast_once_in_a_pass_and_once_for_a_reply_of_any_length() -> None:
    policy = tiny_policy()
    policy.autocast_dtype = torch.bfloat16
    padded = pad_rows(random_rows(policy, [(9, 3)]), policy.pad_id)
    draws = torch.Generator().manual_seed(0)
    with CastWeights(policy) as passed:
        policy.token_stats(padded, entropy=False)
    with CastWeights(policy) as sampled:
        HFSampler(policy).generate([(5, 6, 7)], SamplingSettings(max_reply_tokens=8), draws)
    copies = estimate_memory(shape_of(policy.model, value_bytes=2), config()).copies
    assert passed.bytes == sampled.bytes
    assert 0.95 < passed.bytes / copies <= 1
    assert estimate_memory(shape_of(policy.model), config()).copies == 0


def test_sizes_are_found_without_allocating_a_model() -> None:
    found = model_shape(resolve_config(read_preset("quickstart")))
    policy_like = tiny_model(TinySpec(), 512)
    assert found == shape_of(policy_like)
    assert found.trained == found.parameters == sum(value.numel() for value in policy_like.parameters())
    with pytest.raises(DataError, match=r"no folder no-such-model \(model\.path\)"):
        model_shape(small_config("model.path=no-such-model"))


def test_grouped_queries_and_adapters_are_counted(tmp_path: Any) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    made = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=99,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )
    made.config.save_pretrained(tmp_path)  # no weights are there, and none are needed
    found = model_shape(small_config(f"model.path={tmp_path}", "model.dtype=bfloat16"))
    assert (found.query_width, found.cache_width, found.bytes_per_weight) == (32, 32, 2)
    assert found.parameters == sum(value.numel() for value in made.parameters())
    assert found.largest_block == max(
        sum(value.numel() for value in made.model.layers[0].parameters()),
        found.parameters - sum(value.numel() for value in made.model.layers.parameters()),
    )


def test_sharding_divides_what_is_held_and_gathers_what_is_used() -> None:
    one, eight = (estimate_memory(shape(), config("algorithm.kl_coef=0.01"), count) for count in (1, 8))
    assert one.held == pytest.approx(8 * eight.held)
    assert one.reference == one.weights == 14e9
    assert (one.gathered, eight.gathered) == (0, 14e9)
    assert eight.peak < one.peak
    adapters = estimate_memory(shape(trained=40_000_000), config("algorithm.kl_coef=0.01"))
    assert adapters.reference == 0
    assert adapters.optimizer == 2 * 2 * 40e6


def test_more_devices_are_faster_until_the_weights_alone_take_the_time() -> None:
    settings = config("rollout.groups=128", "rollout.group_size=8", "rollout.max_parallel=1024")
    work = workload_of(settings, 10)
    assert work.replies == 1024 * 10 * 512
    speeds = [estimate_speed(shape(), settings, work, DEVICE, count) for count in (1, 8, 64)]
    assert speeds[0].trained * 8 == pytest.approx(speeds[1].trained)
    assert speeds[0].decoded < speeds[1].decoded < speeds[2].decoded
    # A device alone decodes one episode no faster than it reads the weights.
    single = replace(settings, iterations=0, rollout=replace(settings.rollout, groups=1, group_size=1))
    slow = estimate_speed(shape(), single, replace(workload_of(single, 1), prefilled=0), DEVICE)
    assert slow.decoded < 0.6 * DEVICE.bandwidth / 14e9
    assert slow.decoded > 0.5 * 0.6 * DEVICE.bandwidth / 14e9


def test_full_context_trains_on_each_conversation_once() -> None:
    window, full = (workload_of(config(f"env.context={name}"), 10) for name in ("window", "full"))
    assert window.read == 10 * full.read
    assert window.replies == full.replies


def test_the_turn_limit_is_found_without_the_environments_data() -> None:
    missing = {"env.id": "ALFWorld-v0", "env.options": '{"data": "not here"}'}
    assert longest_episode(small_config(*(f"{name}={value}" for name, value in missing.items()))) == 50
    assert longest_episode(small_config()) == 5
    assert longest_episode(small_config('env.options={"max_moves": 5}')) == 15


def test_the_command_prints_what_one_eight_and_sixty_four_devices_need() -> None:
    result = CliRunner().invoke(build_app(), ["train", "--preset", "quickstart", "--estimate"])
    assert result.exit_code == 0, result.output
    for text in ("x 1", "x 8", "x 64", "optimiser (two moments)", "keys and values", "fits", "sampled tokens/s"):
        assert text in result.output
    assert max(map(len, result.output.splitlines()[3:-2])) < 80
    speeds = next(line for line in result.output.splitlines() if line.startswith("  trained tokens/s"))
    assert len(speeds.split()) == 2 + 3  # columns stand apart
    large = report(shape(parameters=70 * 10**9, trained=70 * 10**9), config(), 10, DEVICE)
    fits = next(line for line in large.splitlines() if line.strip().startswith("fits")).split()[1:]
    assert fits[0] == "no"
    assert f"{140e9 / GIB:.2f}" in large

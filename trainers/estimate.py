"""What a run needs: memory of a process and speed, by arithmetic, before anything is loaded.

Weights are counted exactly, from the model's configuration without allocating it. Memory counts what grows with the
model and the settings; what the allocator and the libraries take on top is one assumption, `OVERHEAD_BYTES`. Speed
is the smaller of what the arithmetic units and the memory of a device allow, times the share of its peak that is
reached in practice: two assumptions, printed with the result. Neither the environment's time nor waiting for the
longest episode is counted, so a run is slower than this.

Formulas (N weights, P trained ones, W processes, b bytes a weight, c bytes a value): weights b N / W, gradients
b P / W, AdamW's two moments 2 b P / W; where c < b (`model.autocast`), copies of the trained weights, c P. A
forward and backward pass costs 6 N operations a token (2 N for the frozen weights of adapters less), plus 12 L h T
of attention at T tokens (Kaplan et al., arXiv 2001.08361). A decoding step reads the weights and the caches of all
running episodes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_gym.core.prompts import ContextMode
from trainers.settings.env import at_stage, parts
from trainers.settings.model import TINY
from trainers.settings.run import TrainConfig

GIB = 2**30
OVERHEAD_BYTES = 1.5 * GIB
"""CUDA context, kernels and fragmentation."""
COMPUTE_SHARE = 0.4
"""Share of a device's peak operations that training reaches."""
BANDWIDTH_SHARE = 0.6
"""Share of a device's peak bandwidth that decoding reaches."""
_LOGITS_HELD = 2**25  # logits of one chunk of the output head, see trainers.policy.logprobs
_FLOAT = 4
_ADAM_MOMENTS = 2


@dataclass(frozen=True)
class Device:
    """An accelerator.

    Attributes:
        name: Its name.
        memory: Bytes.
        operations: Peak dense operations a second in bfloat16.
        bandwidth: Peak memory bandwidth, bytes a second.
    """

    name: str
    memory: float
    operations: float
    bandwidth: float


DEVICES = {
    device.name: device
    for device in (
        Device("A100-80GB", 80e9, 312e12, 2.0e12),
        Device("H100-80GB", 80e9, 989e12, 3.35e12),
        Device("H200-141GB", 141e9, 989e12, 4.8e12),
    )
}
"""Data-sheet figures."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder.

    Attributes:
        parameters: Weights, tied ones counted once, adapters included.
        trained: Weights that are trained.
        largest_block: Weights that are whole at once while a sharded model computes: the largest transformer
            block, or what is outside the blocks.
        layers: Transformer blocks.
        hidden: Width of the residual stream.
        inner: Width of the feed-forward layers.
        query_width: Width of the queries, all heads together.
        cache_width: Width of keys and values of one layer, both together.
        vocabulary: Tokens known.
        bytes_per_weight: Bytes of a stored weight.
        bytes_per_value: Bytes of an activation.
    """

    parameters: int
    trained: int
    largest_block: int
    layers: int
    hidden: int
    inner: int
    query_width: int
    cache_width: int
    vocabulary: int
    bytes_per_weight: int
    bytes_per_value: int


@dataclass(frozen=True)
class Memory:
    """Bytes of one process at its peak, by what they are for."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    copies: float
    """Trained weights in the dtype of computation, where they are stored in a wider one; a sharded model's too are
    whole."""
    gathered: float
    """Whole weights of a sharded model while episodes are sampled."""
    gathered_in_update: float
    """Whole blocks of a sharded model while they compute, this one and the next."""
    activations: float
    """Saved for the backward pass of the largest micro-batch."""
    logits: float
    """One chunk of the output head, with its gradient."""
    cache: float
    """Keys and values of the episodes decoded together."""

    @property
    def held(self) -> float:
        """Bytes held all the time."""
        return self.weights + self.gradients + self.optimizer + self.reference

    @property
    def peak(self) -> float:
        """Bytes at the larger of the two peaks: sampling, and the update."""
        update = self.gathered_in_update + self.activations + self.logits
        return self.held + self.copies + max(update, self.gathered + self.cache)


@dataclass(frozen=True)
class Speed:
    """Tokens a second over all processes, and seconds of an iteration."""

    decoded: float
    trained: float
    sampling_seconds: float
    update_seconds: float


@dataclass(frozen=True)
class Workload:
    """Tokens of one iteration, at most: every reply and every context at its limit.

    Attributes:
        replies: Sampled tokens.
        read: Tokens of all training rows.
        prefilled: Prompt tokens the sampler reads.
        context: Tokens of a row.
        passes: Times that each row goes through forward and backward.
        scored: Forward passes of each row without gradient.
    """

    replies: int
    read: int
    prefilled: int
    context: int
    passes: int
    scored: int


def shape_of(model: Any, weight_bytes: int | None = None, value_bytes: int | None = None) -> ModelShape:
    """Return the sizes of a Hugging Face causal LM, on any device (the meta device too).

    Args:
        model: The model; with adapters, only these count as trained.
        weight_bytes: Bytes of a stored weight; those of the model's weights when None.
        value_bytes: Bytes of an activation; the same as a weight's when None.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = base.config.get_text_config()
    values = list(model.parameters())
    names = set(getattr(base, "_no_split_modules", None) or ())
    blocks = [
        sum(value.numel() for value in module.parameters())
        for module in model.modules()
        if type(module).__name__ in names
    ]
    total = sum(value.numel() for value in values)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    key_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    stored = weight_bytes or values[0].element_size()
    return ModelShape(
        parameters=total,
        trained=sum(value.numel() for value in values if value.requires_grad),
        largest_block=max([total - sum(blocks), *blocks]),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=getattr(config, "intermediate_size", 4 * config.hidden_size),
        query_width=config.num_attention_heads * head_dim,
        cache_width=2 * key_heads * head_dim,
        vocabulary=config.vocab_size,
        bytes_per_weight=stored,
        bytes_per_value=value_bytes or stored,
    )


def workload_of(config: TrainConfig, turns: int) -> Workload:
    """Return the tokens of an iteration in which every episode takes `turns` turns at the limits of its lengths."""
    rollout = config.rollout
    episodes = rollout.groups * rollout.group_size
    windowed = config.env.context is ContextMode.WINDOW
    rows = episodes * (turns if windowed else 1)
    prompt = rollout.max_context_tokens - rollout.max_reply_tokens
    single = config.optim.passes == 1 and config.optim.minibatch_rows in (0, rows)
    # In full context the sampler reads the conversation anew in every turn.
    prefilled = episodes * turns * (prompt if windowed else prompt // 2)
    return Workload(
        replies=episodes * turns * rollout.max_reply_tokens,
        read=rows * rollout.max_context_tokens,
        prefilled=prefilled,
        context=rollout.max_context_tokens,
        passes=config.optim.passes,
        scored=int(not single) + int(config.algorithm.kl_coef > 0),
    )


def longest_episode(config: TrainConfig) -> int:
    """Return the largest turn limit of the run's environments, without making one: their data may be elsewhere.

    Raises:
        ConfigError: An id is unknown.
    """
    from gymnasium.envs.registration import load_env_creator

    from agent_gym.core.make import find_spec

    limits = []
    for part in parts(config.env):
        spec = find_spec(part.settings.id)
        options = {**spec.kwargs, **at_stage(part.settings, -1).options}
        point = spec.entry_point
        creator: Any = load_env_creator(point) if isinstance(point, str) else point
        limits.append(options.get("max_turns") or creator.default_max_turns)
    return int(max(limits))


def estimate_memory(shape: ModelShape, config: TrainConfig, processes: int = 1) -> Memory:
    """Return the bytes of one process.

    Args:
        shape: Sizes of the model.
        config: Settings of the run.
        processes: Processes that the model is spread over.
    """
    rollout, sharded = config.rollout, processes > 1
    weight, value = shape.bytes_per_weight, shape.bytes_per_value
    tokens = max(config.optim.max_tokens_per_microbatch, rollout.max_context_tokens)
    episodes = -(-rollout.groups * rollout.group_size // processes)
    decoded = min(episodes, rollout.max_parallel) * rollout.max_context_tokens
    adapters = shape.trained < shape.parameters
    reference = config.algorithm.kl_coef > 0 and not adapters
    return Memory(
        weights=weight * shape.parameters / processes,
        gradients=weight * shape.trained / processes,
        optimizer=_ADAM_MOMENTS * weight * shape.trained / processes,
        reference=weight * shape.parameters / processes if reference else 0.0,
        copies=float(value * shape.trained) if value < weight else 0.0,
        gathered=float(weight * shape.parameters) if sharded else 0.0,
        gathered_in_update=float(2 * weight * shape.largest_block) if sharded else 0.0,
        activations=float(tokens * activation_values(shape, config.optim.gradient_checkpointing) * value),
        logits=float(2 * _FLOAT * min(_LOGITS_HELD, tokens * shape.vocabulary)),
        cache=float(decoded * shape.layers * shape.cache_width * value),
    )


def activation_values(shape: ModelShape, recomputed: bool) -> int:
    """Return how many values are saved for the backward pass, per token.

    A block saves its input, two normalised copies of it, queries, keys, values, the attention's output, and
    three inner products of a gated feed-forward layer, with what the norms and the activation function keep; the
    last norm keeps two copies. With recomputation each block keeps its input only, and one block at a time
    keeps everything.
    """
    block = 6 * shape.hidden + 3 * shape.query_width + 2 * shape.cache_width + 4 * shape.inner
    outside = 2 * shape.hidden
    if recomputed:
        return shape.layers * shape.hidden + block + outside
    return shape.layers * block + outside


def estimate_speed(
    shape: ModelShape, config: TrainConfig, work: Workload, device: Device, processes: int = 1
) -> Speed:
    """Return tokens a second and the seconds of an iteration on some devices of one kind."""
    compute = COMPUTE_SHARE * device.operations
    bandwidth = BANDWIDTH_SHARE * device.bandwidth
    attention = 4 * shape.layers * shape.query_width * work.context / 2  # on average half the context is before
    forward = 2 * shape.parameters + attention
    frozen = shape.parameters - shape.trained
    again = forward if config.optim.gradient_checkpointing else 0.0
    both = 3 * forward - 2 * frozen + again
    update = work.read * (work.passes * both + work.scored * forward) / compute / processes
    episodes = -(-config.rollout.groups * config.rollout.group_size // processes)
    together = max(1, min(episodes, config.rollout.max_parallel))
    cache = shape.layers * shape.cache_width * shape.bytes_per_value * work.context / 2
    step = max(
        (shape.parameters * shape.bytes_per_value + together * cache) / bandwidth,
        together * forward / compute,
    )
    decoding = work.replies / processes / together * step
    sampling = decoding + work.prefilled / processes * forward / compute
    return Speed(work.replies / sampling, work.read * work.passes / update, sampling, update)


def model_shape(config: TrainConfig) -> ModelShape:
    """Return the sizes of the model that settings name, without loading its weights.

    Raises:
        DataError: There is no configuration of it here.
    """
    import torch

    from agent_gym.support.errors import DataError
    from trainers.policy.devices import resolve_dtype
    from trainers.policy.files import locate_model

    settings = config.model
    with torch.device("meta"):
        if settings.path == TINY:
            from trainers.policy.tiny import tiny_model

            model: Any = tiny_model(settings.tiny_spec(), settings.vocab_size)
            default = torch.float32
        else:
            source = locate_model(settings) or settings.path

            from transformers import AutoConfig, AutoModelForCausalLM

            try:
                found = AutoConfig.from_pretrained(str(source), local_files_only=not settings.allow_downloads)
            except (OSError, ValueError) as error:
                what = " ".join(str(error).split())
                raise DataError(f"no model configuration at {settings.path!r} (model.path): {what}") from error
            default = found.dtype or torch.float32
            model = AutoModelForCausalLM.from_config(found)  # type: ignore[no-untyped-call]
        if settings.lora is not None:
            from peft import LoraConfig, get_peft_model

            targets = settings.lora.targets
            model = get_peft_model(
                model,
                LoraConfig(
                    r=settings.lora.rank,
                    target_modules=targets if isinstance(targets, str) else list(targets),
                    task_type="CAUSAL_LM",
                ),
            )
    stored = default if settings.dtype == "auto" else resolve_dtype(settings.dtype)
    computed = stored if settings.autocast is None else resolve_dtype(settings.autocast)
    return shape_of(model, stored.itemsize, computed.itemsize)


def report(
    shape: ModelShape, config: TrainConfig, turns: int, device: Device, counts: Sequence[int] = (1, 8, 64)
) -> str:
    """Return the estimate as text for a person.

    Args:
        shape: Sizes of the model.
        config: Settings of the run.
        turns: Turns of an episode.
        device: Kind of accelerator.
        counts: Numbers of devices.
    """
    work = workload_of(config, turns)
    memories = [estimate_memory(shape, config, count) for count in counts]
    speeds = [estimate_speed(shape, config, work, device, count) for count in counts]

    about = [
        f"Model: {shape.parameters:,} weights, {shape.trained:,} trained, {shape.bytes_per_weight} bytes each; "
        f"activations {shape.bytes_per_value} bytes.",
        f"Iteration, at most: {config.rollout.groups} x {config.rollout.group_size} episodes of {turns} turns, "
        f"{work.replies:,} sampled tokens, {work.read:,} tokens to train on.",
        "",
    ]
    table: list[tuple[str, list[str]]] = [
        (device.name, [f"x {count}" for count in counts]),
        ("GiB of each process", []),
    ]
    for name, label in (
        ("weights", "weights"),
        ("gradients", "gradients"),
        ("optimizer", "optimiser (two moments)"),
        ("reference", "reference policy"),
        ("copies", "copies to compute with"),
        ("activations", "activations of a micro-batch"),
        ("logits", "logits of one chunk"),
        ("gathered_in_update", "whole blocks, in the update"),
        ("gathered", "whole weights, while sampling"),
        ("cache", "keys and values while sampling"),
        ("peak", "peak, without the libraries' own"),
    ):
        table.append((f"  {label}", [f"{getattr(memory, name) / GIB:.2f}" for memory in memories]))
    fits = ["yes" if memory.peak + OVERHEAD_BYTES <= device.memory else "no" for memory in memories]
    table += [
        ("  fits", fits),
        ("Speed, all devices", []),
        ("  sampled tokens/s", [f"{speed.decoded:,.0f}" for speed in speeds]),
        ("  trained tokens/s", [f"{speed.trained:,.0f}" for speed in speeds]),
        ("  seconds of sampling", [f"{speed.sampling_seconds:,.1f}" for speed in speeds]),
        ("  seconds of the update", [f"{speed.update_seconds:,.1f}" for speed in speeds]),
    ]
    first = max(len(name) for name, _ in table)
    widths = [max(len(cells[place]) for _, cells in table if cells) for place in range(len(counts))]
    rows = [
        f"{name:<{first}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=False))
        for name, cells in table
    ]
    after = [
        "",
        f"Assumed: {COMPUTE_SHARE:.0%} of {device.operations / 1e12:.0f} T operations/s, {BANDWIDTH_SHARE:.0%} of "
        f"{device.bandwidth / 1e12:.2f} TB/s, {OVERHEAD_BYTES / GIB:.1f} GiB for the libraries; every reply and "
        "context at its limit; no time for environments or for the slowest process.",
    ]
    return "\n".join([*about, *(row.rstrip() for row in rows), *after])

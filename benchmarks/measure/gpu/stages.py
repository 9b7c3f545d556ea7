"""What is measured on one accelerator: sampling, scoring, updating, and a short learning curve.

Every stage is a function of a policy and sizes and returns plain numbers, so that each runs on a CPU with small
sizes, too. Wall time counts, because that is what a device is paid for; the device is waited for before each
reading of the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainers.loop import Trainer
from trainers.policy.lora import add_lora
from trainers.policy.policy import Policy
from trainers.policy.token_rows import PaddedRows, TokenRow, pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.run.folder import RunFolder
from trainers.run.reporter import SilentReporter
from trainers.run.tracking import read_metrics
from trainers.settings.lora import LoraSettings
from trainers.settings.reading import resolve_config
from trainers.settings.sampling import SamplingSettings


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurement."""

    batches: tuple[int, ...] = (1, 16, 64, 256)
    """Replies sampled at once."""
    prompt_tokens: int = 384
    """Length of every prompt."""
    reply_tokens: int = 128
    """Longest reply."""
    rows: int = 32
    """Rows of one forward and backward pass."""
    curve: Mapping[str, Any] | None = None
    """Sections that override the settings of the learning curve."""
    curve_seconds: float = 240.0
    """Time after which the learning curve ends with the iteration that runs."""


LARGE = Sizes()
SMALL = Sizes(
    batches=(1, 4),
    prompt_tokens=24,
    reply_tokens=4,
    rows=4,
    curve={
        "iterations": 2,
        "env": {"options": {"max_moves": 4, "max_turns": 2}, "prompt": "compact", "history_length": 0},
        "cloning": {"episodes": 4},
        "rollout": {"groups": 2, "group_size": 2, "max_reply_tokens": 4, "max_context_tokens": 256},
        "evaluation": {"episodes": 2, "every": 0},
    },
    curve_seconds=60.0,
)

CURVE: dict[str, Any] = {
    "algorithm": {"name": "sampo", "max_tries": 1},
    "iterations": 1000,
    "env": {
        "id": "agent_gym/Sokoban-v0",
        "options": {"size": [5, 6], "max_moves": 6, "max_turns": 8},
        "history_length": 0,
    },
    "model": {"dtype": "float32", "autocast": "bfloat16"},
    "cloning": {"episodes": 400, "batch_size": 32, "learning_rate": 1e-4, "format_weight": 1.0, "noise": 0.5},
    "rollout": {
        "groups": 32,
        "group_size": 8,
        "max_reply_tokens": 24,
        "max_context_tokens": 512,
        "max_parallel": 256,
    },
    "optim": {"learning_rate": 1e-5, "minibatch_rows": 512, "max_tokens_per_microbatch": 65_536},
    "evaluation": {"every": 5, "episodes": 128},
    "run": {"checkpoint_every": 1000, "episodes_every": 0, "deterministic": False, "threads": 0},
}
"""Settings of the learning curve: full training of a small language model on small rooms."""


def sampling(policy: Policy, sizes: Sizes) -> list[dict[str, float]]:
    """Return, by batch size, sampled tokens per second and the peak memory of the device."""
    rows = []
    settings = SamplingSettings(max_reply_tokens=sizes.reply_tokens)
    for batch in sizes.batches:
        prompts = _prompts(policy, batch, sizes.prompt_tokens)
        sampler = HFSampler(policy, max_batch=batch)

        def draw(seed: int, sampler: HFSampler = sampler, prompts: Sequence[Any] = prompts) -> int:
            generator = torch.Generator().manual_seed(seed)
            return sum(len(sample.ids) for sample in sampler.generate(prompts, settings, generator))

        rate, peak = _rate(policy, draw)
        rows.append({"batch": batch, "tokens_per_s": rate, "peak_mib": peak})
    return rows


def scoring(policy: Policy, sizes: Sizes) -> list[dict[str, Any]]:
    """Return tokens per second and peak memory of scoring and of forward and backward, full and with adapters,
    with and without recomputed activations. The policy is left unchanged but for recomputation being on."""
    batch = _rows(policy, sizes)
    tokens = int(batch.attention_mask.sum())

    def forward(_: int) -> int:
        with torch.no_grad():
            policy.token_stats(batch)
        return tokens

    def step(trained: Policy) -> Callable[[int], int]:
        def work(_: int) -> int:
            trained.token_stats(batch).logp.sum().backward()  # type: ignore[no-untyped-call]
            for value in trained.parameters():
                value.grad = None
            return tokens

        return work

    found: list[dict[str, Any]] = []

    def add(what: str, work: Callable[[int], int]) -> None:
        rate, peak = _rate(policy, work)
        found.append({"what": what, "tokens_per_s": rate, "peak_mib": peak})

    add("score", forward)
    add("forward and backward", step(policy))
    policy.enable_gradient_checkpointing()
    add("forward and backward, recomputed", step(policy))
    add("forward and backward, adapters, recomputed", step(add_lora(policy, LoraSettings())))
    return found


def learning_curve(model: str, device: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Train for a while and return success, reward and time by iteration.

    Args:
        model: Folder of the model.
        device: Where to train.
        folder: New run folder.
        sizes: Settings and time.
    """
    values = {name: dict(part) if isinstance(part, Mapping) else part for name, part in CURVE.items()}
    for name, part in (sizes.curve or {}).items():
        values[name] = {**values[name], **part} if isinstance(part, Mapping) else part
    values["model"] = {**values["model"], "path": model}
    values["device"] = device
    run = RunFolder.create(folder, resolve_config(values))
    end = time.perf_counter() + sizes.curve_seconds
    summary = Trainer(run, SilentReporter(), lambda: time.perf_counter() > end).run()
    kept = ("rollout/return", "rollout/success", "test/success", "policy/sampler_gap", "policy/entropy")
    rows = []
    for metrics in read_metrics(run.path):
        rows.append({name: value for name, value in metrics.items() if name in kept or name == "seconds"})
    return {
        "cold_start": summary.get("cold_start"),
        "before": _success(summary, "before"),
        "after": _success(summary, "after"),
        "iterations": rows,
    }


def _success(summary: Mapping[str, Any], when: str) -> float | None:
    found = summary.get(when)
    return None if not found else float(found["test"]["success"])


def _prompts(policy: Policy, count: int, length: int) -> list[tuple[int, ...]]:
    vocab = policy.model.config.get_text_config().vocab_size
    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(vocab, (count, length), generator=generator).tolist()
    return [tuple(row) for row in ids]


def _rows(policy: Policy, sizes: Sizes) -> PaddedRows:
    width = sizes.prompt_tokens + sizes.reply_tokens
    rows = [
        TokenRow.from_reply(ids[: sizes.prompt_tokens], ids[sizes.prompt_tokens :], segment=number, episode=number)
        for number, ids in enumerate(_prompts(policy, sizes.rows, width))
    ]
    return pad_rows(rows, policy.pad_id, device=policy.device)


def _rate(policy: Policy, work: Callable[[int], int], repeats: int = 2) -> tuple[float, float]:
    """Return (units of `work` per second, peak MiB of the device); the first call warms up."""
    work(0)
    cuda = policy.device.type == "cuda"
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    done = sum(work(1 + number) for number in range(repeats))
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else 0.0
    return done / seconds, peak

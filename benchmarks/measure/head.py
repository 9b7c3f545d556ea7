"""Memory and time of scoring tokens: the output head in recomputed chunks against all logits at once.

    python -m benchmarks.measure.head               a vocabulary of 49,152 and 4,096 tokens, of which 1,024 sampled
    python -m benchmarks.measure.head vocab=151936 rows=4

Each way runs in a process of its own, forward and backward, on equal weights and tokens. Reported are the growth
of the process's peak memory, the bytes that the graph keeps for the backward pass, CPU time, and how far the two
ways' log-probabilities, entropies and gradients lie apart.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from agent_gym.support.errors import ConfigError, suggest
from benchmarks.measure.child import module_command, run_child
from benchmarks.measure.memory import peak_mib
from trainers.policy.logprobs import HeadReader, token_stats
from trainers.policy.token_rows import PaddedRows, TokenRow, pad_rows

_CHILD = "--child"


class Way(StrEnum):
    """How logits are computed."""

    PLAIN = "plain"
    CHUNKED = "chunked"


@dataclass(frozen=True)
class HeadJob:
    """Sizes of the measurement."""

    vocab: int = 49_152
    """Tokens of the vocabulary."""
    hidden: int = 256
    """Width of the model."""
    rows: int = 8
    """Rows of the batch."""
    width: int = 512
    """Tokens of a row."""
    reply: int = 128
    """Sampled tokens of a row, at its end."""


@dataclass(frozen=True)
class HeadFigures:
    """What one way took.

    Attributes:
        peak_mib: Growth of the process's peak resident memory over forward and backward.
        saved_mib: Bytes of distinct tensors kept for the backward pass after the forward, weights left out.
        seconds: CPU seconds of forward and backward.
    """

    peak_mib: float
    saved_mib: float
    seconds: float


def measure(job: HeadJob) -> dict[str, Any]:
    """Measure both ways.

    Returns:
        `job`, the figures of each way by name, and `difference`: the largest distances of log-probabilities,
        entropies and gradients, the last relative to the largest gradient.

    Raises:
        AgentGymError: A measurement failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"job": asdict(job)}
        tensors = {}
        for way in Way:
            file = Path(folder) / f"{way}.safetensors"
            found[way.value] = asdict(_child(job, way, file))
            tensors[way] = load_file(str(file))
    plain, chunked = tensors[Way.PLAIN], tensors[Way.CHUNKED]
    distance = {name: float((plain[name] - chunked[name]).abs().max()) for name in plain}
    largest = float(plain["gradient"].abs().max())
    found["difference"] = {**distance, "gradient": distance["gradient"] / largest}
    return found


def _child(job: HeadJob, way: Way, file: Path) -> HeadFigures:
    command = module_command("benchmarks.measure.head", _CHILD)
    return HeadFigures(**run_child(command, {"job": asdict(job), "way": way.value, "file": str(file)}))


def _run(job: HeadJob, way: Way, file: Path) -> HeadFigures:
    """Score once in this process; log-probabilities, entropies and the gradient are written into the file."""
    torch.set_num_threads(1)
    model, batch = _model_and_rows(job)
    reader = HeadReader(model)
    assert reader.separable
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved: dict[int, int] = {}

    def keep(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return value

    for parameter in model.parameters():  # gradients are the same either way
        parameter.grad = torch.zeros_like(parameter)
    before = peak_mib()
    begin = time.process_time()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        if way is Way.PLAIN:
            logp_N, entropy_N = _plain_stats(model, batch)
        else:
            stats = token_stats(reader, batch)
            assert stats.entropy is not None
            logp_N, entropy_N = stats.logp[batch.mask], stats.entropy[batch.mask]
        loss = -logp_N.mean() - 0.01 * entropy_N.mean()
        saved_bytes = sum(saved.values())
    loss.backward()  # type: ignore[no-untyped-call]
    seconds = time.process_time() - begin
    peak = peak_mib() - before
    gradient = torch.cat(
        [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    )
    save_file(
        {"logp": logp_N.detach(), "entropy": entropy_N.detach(), "gradient": gradient.detach()},
        str(file),
    )
    return HeadFigures(peak, saved_bytes / 2**20, seconds)


def _model_and_rows(job: HeadJob) -> tuple[Any, PaddedRows]:
    """Return a small model and rows of random tokens, the same for equal sizes."""
    config = LlamaConfig(
        vocab_size=job.vocab,
        hidden_size=job.hidden,
        intermediate_size=2 * job.hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = LlamaForCausalLM(config)
        model.eval()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(job.vocab, (job.rows, job.width), generator=generator).tolist()
    rows = [
        TokenRow.from_reply(row[: -job.reply], row[-job.reply :], segment=number, episode=number)
        for number, row in enumerate(ids)
    ]
    return model, pad_rows(rows, 0)


def _plain_stats(model: Any, batch: PaddedRows) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities and entropies of the sampled tokens from all logits at once."""
    logits_BTV = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits.float()
    logp_BTV = torch.log_softmax(logits_BTV[:, :-1], dim=-1)
    logp_BT = logp_BTV.gather(-1, batch.input_ids[:, 1:, None])[..., 0]
    entropy_BT = -(logp_BTV.exp() * logp_BTV).sum(-1)
    mask_BT = batch.mask[:, 1:]
    return logp_BT[mask_BT], entropy_BT[mask_BT]


def _read_job(arguments: list[str]) -> HeadJob:
    known = {field.name for field in dataclasses.fields(HeadJob)}
    values = {}
    for text in arguments:
        name, _, value = text.partition("=")
        if name not in known or not value.isdecimal() or int(value) < 1:
            raise ConfigError(
                f"expected name=number, got {text!r}.{suggest(name, known)} Names: {', '.join(known)}"
            )
        values[name] = int(value)
    return HeadJob(**values)


def main(arguments: list[str]) -> int:
    """Measure and print a table."""
    if arguments[:1] == [_CHILD]:
        given = json.load(sys.stdin)
        figures = _run(HeadJob(**given["job"]), Way(given["way"]), Path(given["file"]))
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")
        return 0
    found = measure(_read_job(arguments))
    plain, chunked = found["plain"], found["chunked"]
    lines = [f"{'':<16}{'plain':>12}{'chunked':>12}{'ratio':>8}"]
    for name in plain:
        ratio = plain[name] / chunked[name] if chunked[name] else float("inf")
        lines.append(f"{name:<16}{plain[name]:>12.1f}{chunked[name]:>12.1f}{ratio:>8.1f}")
    lines.append(", ".join(f"{name} apart by {value:.1e}" for name, value in found["difference"].items()))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a process started by torchrun does in the tests of several processes: `-m tests.trainers.ranks CASE FOLDER`.

Every case also runs in a single process, where it gives what the ranks together have to give.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agent_gym.core.prompts import ContextMode, Segment
from tests.trainers.loop import door_encoder, door_split
from tests.trainers.toys import random_rows, tiny_policy
from tests.trainers.update.test_updater import ADVANTAGES, LENGTHS, batch_of, level
from trainers.loop import Trainer
from trainers.policy import logprobs
from trainers.policy.logprobs import Scorer
from trainers.policy.lora import add_lora, reference_of
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks, leave, open_ranks
from trainers.policy.sharding import shard, whole_weights
from trainers.rollout.collect import GroupCollector
from trainers.rollout.environments import TrainEnv, TrainEnvs
from trainers.rollout.masked_prompts import PromptSources
from trainers.rollout.samplers.hf import HFSampler
from trainers.rollout.task_order import TaskSampler
from trainers.run.folder import RunFolder
from trainers.run.reporter import SilentReporter
from trainers.settings.algorithm import ALGORITHMS, Aggregation, AlgorithmConfig, GroupFilter, ImportanceLevel
from trainers.settings.env import EnvSettings, Part
from trainers.settings.lora import LoraSettings
from trainers.settings.optim import OptimSettings
from trainers.settings.sampling import SamplingSettings
from trainers.settings.stapo import Side, StapoSettings
from trainers.stapo.term import SelectiveReport
from trainers.stapo.turns import OutlierTurns
from trainers.update.batch import Batch
from trainers.update.schedules import LearningRate
from trainers.update.scoring_pass import turn_entropies
from trainers.update.turn_table import RowTable
from trainers.update.types import MicroStep, StepReport
from trainers.update.updater import Updater


class Kind(StrEnum):
    """What is special about a case."""

    PLAIN = "plain"
    ADAPTERS = "adapters"
    RECOMPUTED = "recomputed activations"
    SCORED = "scored before the update"
    SELECTIVE = "stapo"
    CHUNKED = "output head in chunks"


@dataclass(frozen=True)
class Case:
    """An algorithm on a batch with settings of the update."""

    algorithm: AlgorithmConfig
    settings: dict[str, Any]
    rows: str = "mixed"
    kind: Kind = Kind.PLAIN


STAPO = StapoSettings(alpha=0.5, beta=0.3, gamma_s=0.2, side=Side.BOTH, iqr_lambda=0.2)
"""Flags some of the turns of the small batch."""


class Share(PromptSources):
    """Knows the prompts that its rank sampled, and masks one by leaving out its first two tokens."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    def __contains__(self, ids: object) -> bool:
        return isinstance(ids, tuple) and sum(ids) % self._ranks.size == self._ranks.rank

    def masked(self, ids: tuple[int, ...], segments: Iterable[Segment]) -> tuple[int, ...]:
        return ids[2:]


def update_cases() -> dict[str, Case]:
    """Return every aggregation at every level, cut into minibatches and not, and batches of awkward sizes."""
    two_passes = {"passes": 2, "minibatch_rows": 3, "max_tokens_per_microbatch": 16}
    cases = {
        f"{aggregation.value}-{kind.value}": Case(replace(level(kind.value), aggregation=aggregation), two_passes)
        for aggregation in Aggregation
        for kind in ImportanceLevel
    }
    for ratio in ImportanceLevel:
        of, short = level(ratio.value), {"passes": 2, "max_tokens_per_microbatch": 16}
        cases[f"one step-{ratio.value}"] = Case(of, {"max_tokens_per_microbatch": 24})
        cases[f"one row-{ratio.value}"] = Case(of, {"passes": 2}, "one")
        cases[f"one long row-{ratio.value}"] = Case(of, short, "uneven")
    entropy = replace(ALGORITHMS["sampo"], entropy_coef=0.01)
    cases["sampo with entropy"] = Case(entropy, {"passes": 3, "minibatch_rows": 4})
    cases["entropy in chunks"] = Case(entropy, {"passes": 2}, kind=Kind.CHUNKED)
    for kind in (Kind.ADAPTERS, Kind.RECOMPUTED, Kind.SCORED, Kind.CHUNKED):
        cases[kind.value] = Case(level("turn"), {"passes": 2, "max_tokens_per_microbatch": 40}, kind=kind)
    for name, cut in (("one step", {"max_tokens_per_microbatch": 40}), ("two passes", two_passes)):
        cases[f"stapo-{name}"] = Case(replace(level("token"), stapo=STAPO), cut, kind=Kind.SELECTIVE)
    cases["gradient clip"] = Case(level("token"), {"passes": 2, "grad_clip": 0.01})
    return cases


def adapted(policy: Policy) -> tuple[Policy, Scorer]:
    """Return the policy with adapters that do something, and the reference that shares its weights."""
    policy = add_lora(policy, LoraSettings(rank=2))
    with torch.no_grad():
        for name, value in policy.named_parameters():
            if "lora_B" in name:
                value.copy_(torch.linspace(-0.01, 0.01, value.numel()).view(value.shape))
    reference = reference_of(policy)
    with torch.no_grad():
        for value in policy.parameters():
            value.mul_(1.1)
    return policy, reference


def run_case(case: Case, ranks: Ranks) -> dict[str, Any]:
    """Run a case, with few logits at once where it asks for chunks; see `_run_case`."""
    whole = logprobs._LOGITS_PER_CHUNK
    logprobs._LOGITS_PER_CHUNK = 1_000 if case.kind is Kind.CHUNKED and ranks.size > 1 else whole
    try:
        return _run_case(case, ranks)
    finally:
        logprobs._LOGITS_PER_CHUNK = whole


def _run_case(case: Case, ranks: Ranks) -> dict[str, Any]:
    """Return losses, gradient norms, the last gradient and the new weights of one case."""
    policy, reference = tiny_policy(), tiny_policy()
    with torch.no_grad():
        for weight in reference.parameters():
            weight.mul_(1.05)
    reference.model.requires_grad_(False)
    scorer: Scorer = reference
    if case.kind is Kind.ADAPTERS:
        policy, scorer = adapted(policy)
    if case.kind is Kind.RECOMPUTED:
        policy.enable_gradient_checkpointing()
    shard(policy, ranks)
    if scorer is reference:
        shard(reference, ranks)
    values = {"learning_rate": 0.3, "grad_clip": 1e9, **case.settings}
    # Plain SGD, so that the new weights show the gradient to its last digit.
    optimizer = torch.optim.SGD(policy.parameters(), lr=values["learning_rate"])
    updater = Updater(
        policy,
        optimizer,
        LearningRate(optimizer, values["learning_rate"]),
        algorithm=case.algorithm,
        settings=OptimSettings(**values),
        reference=scorer if case.algorithm.kl_coef > 0 else None,
        ranks=ranks,
    )
    batch, advantages = _batch(case.rows, policy)
    scored = updater.score(batch, 11) if case.kind is Kind.SCORED else None
    entropies = [] if scored is None else turn_entropies(scored, len(batch.table), ranks).tolist()
    term = None
    if case.algorithm.stapo is not None:
        limit = updater.settings.max_tokens_per_microbatch
        term = OutlierTurns(batch, case.algorithm.stapo, Share(ranks), max_tokens=limit, ranks=ranks)
    losses, sums, norms = [], np.zeros(3), []
    for event in updater.update(batch, advantages, 11, scored=scored, extra_term=term):
        if isinstance(event, MicroStep):
            sums += [float(value.detach()) for value in (event.loss.loss, event.loss.kl, event.loss.entropy)]
        elif isinstance(event, SelectiveReport):
            sums += [event.loss, event.reward, event.masked_entropy]
        elif isinstance(event, StepReport):
            losses.append(sum(ranks.gather(sums)).tolist())  # type: ignore[union-attr]
            norms.append(event.grad_norm)
            sums = np.zeros(3)
    return {
        "losses": losses,
        "norms": norms,
        "entropies": entropies,
        "gradient": _flat(value.grad for value in policy.parameters()),
        "weights": _flat(policy.parameters()),
    }


def _batch(kind: str, policy: Policy) -> tuple[Batch, Any]:
    batch = batch_of(policy)
    if kind == "mixed":
        return batch, ADVANTAGES
    if kind == "one":
        return replace(batch, rows=batch.rows[1:2]), ADVANTAGES
    lengths = [(60, 9), *LENGTHS[:4]]
    rows = tuple(replace(row, episode=index // 2) for index, row in enumerate(random_rows(policy, lengths, seed=4)))
    table = RowTable(
        group=np.zeros(5, int),
        episode=np.array([0, 0, 1, 1, 2]),
        turn=np.array([0, 1, 0, 1, 0]),
        reward=np.zeros(5),
        penalty=np.zeros(5),
        anchor=("",) * 5,
        n_tokens=np.array([reply for _, reply in lengths]),
    )
    return Batch((), table, rows), ADVANTAGES[:5]


def _flat(tensors: Any) -> torch.Tensor:
    whole = (value.full_tensor() if hasattr(value, "full_tensor") else value for value in tensors)
    return torch.cat([value.detach().flatten() for value in whole])


def updates(ranks: Ranks, folder: Path) -> None:
    """Write what every case of the update gives."""
    found = {name: run_case(case, ranks) for name, case in update_cases().items()}
    if ranks.is_main:
        torch.save(found, folder / "updates.pt")


def overflow(ranks: Ranks, folder: Path) -> None:
    """Sample four groups with a sharded policy; on rank 1 no prompt fits, so it takes no forward pass at all."""
    policy = tiny_policy()
    shard(policy, ranks)
    limit = 0 if ranks.rank == 1 else 10_000
    split = door_split()
    encoder = door_encoder(policy, ContextMode.WINDOW, limit=limit, compact=True)
    env = TrainEnv(Part("", 1.0, EnvSettings()), split, TaskSampler(split.handle.env.tasks, seed=0))
    collector = GroupCollector(
        TrainEnvs([env]),
        lambda env: encoder,
        HFSampler(policy),
        sampling=SamplingSettings(max_reply_tokens=3),
        algorithm=replace(ALGORITHMS["grpo"], group_filter=GroupFilter.NONE),
        groups=4,
        group_size=2,
        seed=0,
        ranks=ranks,
    )
    with split.runner, whole_weights(policy):
        collected = collector.collect(0)
    reasons = [[episode.stop_reason for episode in group] for group in collected.sampled]
    checksum = policy.checksum()  # a collective: the weights are sharded again
    if ranks.is_main:
        (folder / "overflow.json").write_text(json.dumps({"reasons": reasons, "checksum": checksum}), "utf-8")


def maths(ranks: Ranks, folder: Path) -> None:
    """All that needs no run."""
    updates(ranks, folder)
    overflow(ranks, folder)


OVERFLOWING = (
    "iterations=4",
    "env.context=full",
    "rollout.max_context_tokens=118",
    "rollout.groups=2",
    "algorithm.max_tries=1",
)
"""A run in which the conversations of some episodes do not fit."""

MIXED = (
    "iterations=3",
    "env.options={}",
    "env.mix="
    + json.dumps(
        [
            {
                "id": "agent_gym/Sokoban-v0",
                "name": "growing",
                "weight": 2,
                "stages": [
                    {"options": {"max_moves": 3, "max_turns": 3}, "iterations": 1},
                    {"options": {"max_moves": 5, "max_turns": 5}},
                ],
            },
            {"id": "agent_gym/Sokoban-v0", "name": "steady", "options": {"max_moves": 4, "max_turns": 4}},
        ]
    ),
    "cloning.episodes=12",  # so that the reference has adapters of its own
    "cloning.epochs=1",
    "model.lora.rank=2",
    "algorithm.kl_coef=0.05",
    "optim.learning_rate=0.02",
)
"""A run of adapters on two environments, one of which becomes harder after its first iteration."""


class CountingReporter(SilentReporter):
    """Counts the iterations it is told of."""

    count = 0

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Count."""
        self.count += 1


def go_on(ranks: Ranks, path: Path, last: int) -> None:
    """Go on with a run until it ends or `last` iterations are done in this part of it."""
    run = RunFolder.open(path, writes=ranks.is_main)
    reporter = CountingReporter()
    # Only one rank is told to stop, as when a signal reaches one of them.
    Trainer(run, reporter, lambda: ranks.rank == 1 and reporter.count >= last, ranks).run()


def train(ranks: Ranks, folder: Path) -> None:
    """Begin the run in `begun`, stopping after two iterations, and go on with the one in `resumed`."""
    go_on(ranks, folder / "begun", 2)
    go_on(ranks, folder / "resumed", 100)


def mixed(ranks: Ranks, folder: Path) -> None:
    """Begin the run in `together`, stop after two iterations, and go on to its end."""
    go_on(ranks, folder / "together", 2)
    go_on(ranks, folder / "together", 100)


def fail(ranks: Ranks, folder: Path) -> None:
    """Have one rank fail while the other waits for it."""
    if ranks.rank == 1:
        raise ValueError("the dog ate the gradient")
    ranks.gather(None)


def fail_aside(ranks: Ranks, folder: Path) -> None:
    """Have one rank fail while the other computes and asks nobody."""
    if ranks.rank == 1:
        raise ValueError("the dog ate the gradient")
    while True:
        sum(range(1_000_000))


CASES: dict[str, Callable[[Ranks, Path], None]] = {
    "maths": maths,
    "train": train,
    "mixed": mixed,
    "fail": fail,
    "fail_aside": fail_aside,
}


def main(case: str, folder: str) -> None:
    """Run a case as one rank."""
    torch.set_num_threads(1)
    with open_ranks() as ranks:
        CASES[case](ranks, Path(folder))
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])

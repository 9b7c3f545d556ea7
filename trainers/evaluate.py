"""Evaluation of a run before, during and after training: which tasks, in which environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from agent_gym.play.driver import PlayResult
from agent_gym.play.episode import EpisodeWriter
from agent_gym.support.seeding import stable_hash
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.rollout.conversation import PromptEncoder, prompt_encoder
from trainers.rollout.curriculum import apportion
from trainers.rollout.environments import SplitEnvs, TrainEnvs, prompt_builder
from trainers.rollout.evaluation import Evaluation, combine, distinct_tasks, evaluate_policy
from trainers.rollout.samplers.base import Sampler
from trainers.settings.run import TrainConfig

TEST = "test"
POOL = "pool"


class Reporter(Protocol):
    """What an evaluation tells whoever watches."""

    def phase(self, name: str, total: int) -> Any:
        """Return a context manager whose value advances a progress bar when called."""

    def evaluation(self, when: str, evaluation: Evaluation) -> None:
        """Show an evaluation."""


@dataclass(frozen=True)
class Plan:
    """Which tasks an evaluation plays, and where."""

    name: str
    stage: SplitEnvs
    encoder: PromptEncoder
    ids: Sequence[str]
    count: int
    """Tasks played during training."""
    final_count: int
    """Tasks played before and after training."""


class RunEvaluator:
    """Evaluates the policy of a run on its test tasks, and on its training pool if asked.

    With several environments each has its own evaluation, `test/NAME`, and `test` is all their episodes together.

    Args:
        config: Settings of the run.
        policy: The policy, for its tokenizer.
        sampler: Sampler with the policy's weights.
        envs: The environments.
        episodes: Folder that the episodes of the final evaluations are written to.
        reporter: Told of progress.
        should_stop: Asked during the final evaluations.
        ranks: The processes that share the episodes; the main one writes them.
        sampling: Makes the context in which processes draw from the policy without waiting for each other.
    """

    def __init__(
        self,
        config: TrainConfig,
        policy: Policy,
        sampler: Sampler,
        envs: TrainEnvs,
        episodes: Path,
        reporter: Reporter,
        should_stop: Callable[[], bool],
        ranks: Ranks | None = None,
        sampling: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._sampler, self._seed = sampler, config.seed
        self._episodes, self._reporter, self._should_stop = episodes, reporter, should_stop
        self._ranks, self._drawing = ranks or Ranks(), sampling
        self._sampling = config.evaluation_sampling
        settings = config.evaluation
        self._plans: dict[str, list[Plan]] = {TEST: []}
        final = settings.final_episodes or settings.episodes
        shares = [apportion(count, [1.0] * len(envs.envs)) for count in (settings.episodes, final)]
        for env, count, final_count in zip(envs.envs, *shares, strict=True):
            encoder = prompt_encoder(policy, prompt_builder(env.test.handle, env.settings), config)
            ids = distinct_tasks(env.test.handle.env.tasks, max(count, final_count))
            plan = Plan(_joined(TEST, env.name), env.test, encoder, ids, count, final_count)
            self._plans[TEST].append(plan)
            if settings.pool:
                pool = env.train.handle.env.tasks.ids[: config.env.pool_size]
                ids = list(pool) * max(1, -(-count // len(pool)))
                plan = Plan(_joined(POOL, env.name), env.train, encoder, ids, len(ids), len(ids))
                self._plans.setdefault(POOL, []).append(plan)

    def during(self, when: str) -> dict[str, float]:
        """Evaluate on fewer tasks; returns metrics."""
        metrics: dict[str, float] = {}
        for name, plans in self._plans.items():
            results = {}
            for plan in plans:
                found, results[plan.name] = self._play(plan, when, plan.ids[: plan.count])
                metrics |= found.metrics(plan.name)
            if len(plans) > 1:
                metrics |= combine(plans[0].stage.handle.env.tasks.split, results).metrics(name)
        return metrics

    def final(self, when: str) -> dict[str, Any] | None:
        """Evaluate on all tasks and keep the episodes.

        Returns:
            What the summary holds, or None when the run was asked to stop meanwhile.
        """
        report: dict[str, Any] = {}
        for name, plans in self._plans.items():
            results = {}
            single: dict[str, Any] = {}
            for plan in plans:
                ids = plan.ids[: plan.final_count]
                found, result = self._play(plan, when, ids, self._should_stop)
                if found.n_ok + found.n_error < len(ids):
                    return None
                if self._ranks.is_main:
                    path = self._episodes / f"{plan.name.replace('/', '-')}-{when}.jsonl"
                    path.unlink(missing_ok=True)
                    with EpisodeWriter(path) as writer:
                        for episode in result.whole:
                            writer.write(episode)
                results[plan.name] = result
                single[plan.name] = {
                    **asdict(found),
                    "tasks_digest": plan.stage.handle.env.tasks_digest(ids),
                }
            if len(plans) > 1:
                digest = stable_hash(*(found["tasks_digest"] for found in single.values()), size=16)
                whole = combine(plans[0].stage.handle.env.tasks.split, results)
                report[name] = {**asdict(whole), "tasks_digest": digest}
            report |= single
        return report

    def _play(
        self, plan: Plan, when: str, ids: Sequence[str], should_stop: Callable[[], bool] | None = None
    ) -> tuple[Evaluation, PlayResult]:
        mine = len(self._ranks.share(len(ids)))
        with self._drawing(), self._reporter.phase(f"Evaluation on {plan.name}, {when}", mine) as advance:
            found, result = evaluate_policy(
                plan.stage,
                plan.encoder,
                self._sampler,
                self._sampling,
                ids,
                self._seed,
                on_episode=lambda *_: advance(),
                should_stop=should_stop,
                ranks=self._ranks,
            )
        if found.n_ok + found.n_error == len(ids):  # else the run was asked to stop: part of it is no result
            self._reporter.evaluation(f"{plan.name}, {when}", found)
        return found, result


def _joined(name: str, part: str) -> str:
    return f"{name}/{part}" if part else name

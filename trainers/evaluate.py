"""Evaluation of a run before, during and after training: fixed tasks, fixed seeds, nothing trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from agent_gym.core.tasks import TaskSet
from agent_gym.play.driver import PlayResult, play_episodes
from agent_gym.play.episode import Episode, EpisodeWriter
from agent_gym.play.request import evaluation_requests
from agent_gym.support.seeding import stable_hash
from trainers.context import RunContext
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.rollout.agent import EpisodeDraws, PolicyAgent
from trainers.rollout.collect import joined
from trainers.rollout.conversation import prompt_encoder
from trainers.rollout.curriculum import apportion
from trainers.rollout.environments import SplitEnvs, TrainEnv, TrainEnvs, prompt_builder
from trainers.rollout.samplers.base import Sampler
from trainers.rollout.summaries import combine, summarise
from trainers.run.results import Evaluation

TEST = "test"
POOL = "pool"


def distinct_tasks(tasks: TaskSet, count: int) -> list[str]:
    """Return the first `count` task ids whose records differ, or all there are.

    Small generated worlds repeat; a repeated room would count twice and say nothing new.
    """
    seen: set[str] = set()
    chosen: list[str] = []
    for task_id in tasks.ids:
        key = stable_hash(repr(tasks.load(task_id).record))
        if key not in seen:
            seen.add(key)
            chosen.append(task_id)
            if len(chosen) == count:
                break
    return chosen


def evaluate_policy(
    split: SplitEnvs,
    agent: PolicyAgent,
    task_ids: Sequence[str],
    seed: int,
    *,
    on_episode: Callable[[int, Episode], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    ranks: Ranks | None = None,
) -> tuple[Evaluation, PlayResult]:
    """Play each task once for each time it is listed.

    Args:
        split: Split to play.
        agent: The policy, with draws that depend on the episode only.
        task_ids: Tasks, in order.
        seed: Each episode's seed and the draws derive from it, so evaluations of two policies differ by the
            policies only.
        on_episode: Called as episodes of this process finish.
        should_stop: Ends the evaluation early.
        ranks: The processes that share the episodes; every one gets the results of all.
    """
    requests = evaluation_requests(task_ids, seed)
    ranks = ranks or Ranks()
    share = ranks.share(len(requests))
    mine = play_episodes(
        split.handle,
        split.runner,
        agent,
        requests[share.start : share.stop],
        on_episode=on_episode,
        should_stop=should_stop,
    )
    result = joined(ranks.gather(mine))
    return summarise(split.handle.env.tasks.split, result), result


@dataclass(frozen=True)
class EvaluationPlan:
    """Which tasks an evaluation plays, where, and by whom."""

    name: str
    """`test` or `pool`, with the name of the environment where there are several."""
    split: SplitEnvs
    """Where they are played."""
    agent: PolicyAgent
    """The policy, shown the environment as in training."""
    ids: Sequence[str]
    """Tasks, in order."""
    count: int
    """Tasks played during training."""
    final_count: int
    """Tasks played before and after training."""


class RunEvaluator:
    """Evaluates the policy of a run on its test tasks, and on its training pool if asked.

    With several environments each has its own evaluation, `test/NAME`, and `test` is all their episodes together.

    Args:
        context: The run; the main process writes the episodes of the final evaluations.
        policy: The policy, for its tokenizer.
        sampler: Sampler with the policy's weights.
        envs: The environments.
        drawing: Makes the context in which processes draw from the policy without waiting for each other.
    """

    def __init__(
        self,
        context: RunContext,
        policy: Policy,
        sampler: Sampler,
        envs: TrainEnvs,
        drawing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._context, self._drawing = context, drawing
        config = context.config
        settings = config.evaluation

        def agent(env: TrainEnv, split: SplitEnvs) -> PolicyAgent:
            encoder = prompt_encoder(policy, prompt_builder(split.handle, env.settings), config)
            return PolicyAgent(encoder, sampler, config.evaluation_sampling, EpisodeDraws())

        self._plans: dict[str, list[EvaluationPlan]] = {TEST: []}
        final = settings.final_episodes or settings.episodes
        shares = [apportion(count, [1.0] * len(envs.envs)) for count in (settings.episodes, final)]
        for env, count, final_count in zip(envs.envs, *shares, strict=True):
            player = agent(env, env.test)
            ids = distinct_tasks(env.test.handle.env.tasks, max(count, final_count))
            self._plans[TEST].append(
                EvaluationPlan(_joined(TEST, env.name), env.test, player, ids, count=count, final_count=final_count)
            )
            if settings.pool:
                pool = env.train.handle.env.tasks.ids[: config.env.pool_size]
                ids = list(pool) * max(1, -(-count // len(pool)))
                plan = EvaluationPlan(
                    _joined(POOL, env.name), env.train, player, ids, count=len(ids), final_count=len(ids)
                )
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
                metrics |= combine(plans[0].split.handle.env.tasks.split, results).metrics(name)
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
                found, result = self._play(plan, when, ids, self._context.should_stop)
                if found.n_ok + found.n_error < len(ids):
                    return None
                if self._context.ranks.is_main:
                    path = self._context.folder.episodes / f"{plan.name.replace('/', '-')}-{when}.jsonl"
                    path.unlink(missing_ok=True)
                    with EpisodeWriter(path) as writer:
                        for episode in result.whole:
                            writer.write(episode)
                results[plan.name] = result
                single[plan.name] = {
                    **asdict(found),
                    "tasks_digest": plan.split.handle.env.tasks_digest(ids),
                }
            if len(plans) > 1:
                digest = stable_hash(*(found["tasks_digest"] for found in single.values()), size=16)
                whole = combine(plans[0].split.handle.env.tasks.split, results)
                report[name] = {**asdict(whole), "tasks_digest": digest}
            report |= single
        return report

    def _play(
        self, plan: EvaluationPlan, when: str, ids: Sequence[str], should_stop: Callable[[], bool] | None = None
    ) -> tuple[Evaluation, PlayResult]:
        context = self._context
        mine = len(context.ranks.share(len(ids)))
        with self._drawing(), context.reporter.phase(f"Evaluation on {plan.name}, {when}", mine) as advance:
            found, result = evaluate_policy(
                plan.split,
                plan.agent,
                ids,
                context.config.seed,
                on_episode=lambda *_: advance(),
                should_stop=should_stop,
                ranks=context.ranks,
            )
        if found.n_ok + found.n_error == len(ids):  # else the run was asked to stop: part of it is no result
            context.reporter.evaluation(f"{plan.name}, {when}", found)
        return found, result


def _joined(name: str, part: str) -> str:
    return f"{name}/{part}" if part else name

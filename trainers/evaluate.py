"""Evaluation of a run before, during and after training: fixed tasks, fixed seeds, nothing trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from agent_gym.core.tasks import TaskSet
from agent_gym.play.driver import PlayResult, play_episodes
from agent_gym.play.episode import Episode, EpisodeWriter
from agent_gym.play.request import EpisodeRequest, evaluation_requests
from agent_gym.support.seeding import derive_seed, stable_hash
from trainers.context import RunContext
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.rollout.agent import EpisodeDraws, PolicyAgent
from trainers.rollout.collect import joined
from trainers.rollout.conversation import PromptEncoder, prompt_encoder
from trainers.rollout.curriculum import apportion
from trainers.rollout.environments import SplitEnvs, TrainEnvs, prompt_builder
from trainers.rollout.samplers.base import Sampler
from trainers.rollout.summaries import combine, summarise
from trainers.run.results import Evaluation

_RECIPE = "recipe"
"""Key of a final evaluation in a run's summary: how its seeds were made; `first_requests` without it."""
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
    requests: Sequence[EpisodeRequest],
    *,
    on_episode: Callable[[int, Episode], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    ranks: Ranks | None = None,
) -> tuple[Evaluation, PlayResult]:
    """Play the episodes of an evaluation.

    Args:
        split: Split to play.
        agent: The policy, with draws that depend on the episode only.
        requests: The episodes. Draws derive from their seeds, so that evaluations of two policies differ by the
            policies only.
        on_episode: Called as episodes of this process finish.
        should_stop: Ends the evaluation early.
        ranks: The processes that share the episodes; every one gets the results of all.
    """
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


def first_requests(task_ids: Sequence[str], seed: int) -> list[EpisodeRequest]:
    """Return the episodes of an evaluation as runs had them that began before `evaluation_requests`."""
    listed: Counter[str] = Counter()
    requests = []
    for task in task_ids:
        requests.append(EpisodeRequest(task, derive_seed(seed, "evaluation", task, listed[task]), plan_seed=seed))
        listed[task] += 1
    return requests


@dataclass(frozen=True)
class EvaluationPlan:
    """Which tasks an evaluation plays, where, and what the policy is shown."""

    name: str
    """`test` or `pool`, with the name of the environment where there are several."""
    split: SplitEnvs
    """Where they are played."""
    encoder: PromptEncoder
    """Shows the environment as in training."""
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
        self._context, self._sampler, self._drawing = context, sampler, drawing
        summary = context.ranks.from_main(context.folder.summary())
        begun_earlier = "before" in summary and _RECIPE not in summary["before"][TEST]
        self._requests = first_requests if begun_earlier else evaluation_requests
        config = context.config
        settings = config.evaluation

        self._plans: dict[str, list[EvaluationPlan]] = {TEST: []}
        final = settings.final_episodes or settings.episodes
        shares = [apportion(count, [1.0] * len(envs.envs)) for count in (settings.episodes, final)]
        for env, count, final_count in zip(envs.envs, *shares, strict=True):
            encoder = prompt_encoder(policy, prompt_builder(env.test.handle, env.settings), config)
            ids = distinct_tasks(env.test.handle.env.tasks, max(count, final_count))
            self._plans[TEST].append(
                EvaluationPlan(
                    _joined(TEST, env.name), env.test, encoder, ids, count=count, final_count=final_count
                )
            )
            if settings.pool:
                pool = env.train.handle.env.tasks.ids[: config.env.pool_size]
                ids = list(pool) * max(1, -(-count // len(pool)))
                plan = EvaluationPlan(
                    _joined(POOL, env.name), env.train, encoder, ids, count=len(ids), final_count=len(ids)
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
        if self._requests is evaluation_requests:
            for entry in report.values():
                entry[_RECIPE] = 2
        return report

    def _play(
        self, plan: EvaluationPlan, when: str, ids: Sequence[str], should_stop: Callable[[], bool] | None = None
    ) -> tuple[Evaluation, PlayResult]:
        context = self._context
        mine = len(context.ranks.share(len(ids)))
        with self._drawing(), context.reporter.phase(f"Evaluation on {plan.name}, {when}", mine) as advance:
            found, result = evaluate_policy(
                plan.split,
                PolicyAgent(plan.encoder, self._sampler, context.config.evaluation_sampling, EpisodeDraws()),
                self._requests(ids, context.config.seed),
                on_episode=lambda *_: advance(),
                should_stop=should_stop,
                ranks=context.ranks,
            )
        if found.n_ok + found.n_error == len(ids):  # else the run was asked to stop: part of it is no result
            context.reporter.evaluation(f"{plan.name}, {when}", found)
        return found, result


def _joined(name: str, part: str) -> str:
    return f"{name}/{part}" if part else name

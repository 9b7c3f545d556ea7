"""Evaluation of a policy during a run: fixed tasks, fixed seeds, nothing trained on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_gym.core.info import StopReason
from agent_gym.core.tasks import TaskSet
from agent_gym.play.driver import PlayResult, play_episodes
from agent_gym.play.episode import Episode
from agent_gym.play.request import evaluation_requests
from agent_gym.support.arithmetic import added
from agent_gym.support.seeding import stable_hash
from trainers.policy.ranks import Ranks
from trainers.rollout.agent import EpisodeDraws, PolicyAgent
from trainers.rollout.collect import joined
from trainers.rollout.conversation import PromptEncoder
from trainers.rollout.group_filter import is_mixed
from trainers.rollout.samplers.base import Sampler, SamplingSettings
from trainers.setup import SplitEnvs


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


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        split: Split that was played.
        n_ok: Episodes played.
        n_error: Episodes in which the environment or a tool behind it failed; not counted as failures of the
            policy.
        success: Share of solved episodes.
        score: Mean task score.
        reward: Mean episode return.
        turns: Mean turns.
        valid_format: Share of replies that follow the grammar.
        valid_action: Share of replies whose action was accepted.
        by_type: Success by task type.
    """

    split: str
    n_ok: int
    n_error: int
    success: float
    score: float
    reward: float
    turns: float
    valid_format: float
    valid_action: float
    by_type: dict[str, float]

    @property
    def standard_error(self) -> float:
        """Standard error of the success rate."""
        return (self.success * (1 - self.success) / self.n_ok) ** 0.5 if self.n_ok else 0.0

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the numbers as metrics named `<prefix>/...`."""
        names = ("success", "score", "reward", "turns", "valid_format", "valid_action")
        return {f"{prefix}/{name}": float(getattr(self, name)) for name in names}


def summarise(split: str, result: PlayResult) -> Evaluation:
    """Return the means over played episodes."""
    episodes = [episode for episode in result.whole if episode.stop_reason is not StopReason.TOOL_ERROR]
    types: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        types[episode.task_type].append(episode.success)
    turns = [turn for episode in episodes for turn in episode.turns]
    return Evaluation(
        split=split,
        n_ok=len(episodes),
        n_error=len(result.errors) + len(result.whole) - len(episodes),
        success=_mean([episode.success for episode in episodes]),
        score=_mean([episode.score for episode in episodes]),
        reward=_mean([episode.reward for episode in episodes]),
        turns=_mean([len(episode.turns) for episode in episodes]),
        valid_format=_mean([turn.valid_format for turn in turns]),
        valid_action=_mean([turn.valid_action for turn in turns]),
        by_type={kind: _mean(types[kind]) for kind in sorted(types)},
    )


def combine(split: str, results: Mapping[str, PlayResult]) -> Evaluation:
    """Return the means over the episodes of several environments; types are named `name: type`."""
    named = [
        replace(episode, task_type=f"{name.rpartition('/')[2]}: {episode.task_type}")
        for name, result in results.items()
        for episode in result.whole
    ]
    errors = [error for result in results.values() for error in result.errors.values()]
    return summarise(split, PlayResult(list(named), dict(enumerate(errors))))


def summarise_groups(groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
    """Return the metrics of one environment's groups of an iteration; without episodes only their number."""
    episodes = [episode for group in groups for episode in group]
    if not episodes:
        return {"groups": float(len(groups))}
    turns = [turn for episode in episodes for turn in episode.turns]
    mixed = [is_mixed([episode.reward for episode in group]) for group in groups]
    return {
        "groups": float(len(groups)),
        "success": _mean([episode.success for episode in episodes]),
        "return": _mean([episode.reward for episode in episodes if math.isfinite(episode.reward)]),
        "turns": len(turns) / len(episodes),
        "length": _mean([len(turn.reply_ids or ()) for turn in turns]),
        "valid_format": _mean([turn.valid_format for turn in turns]),
        "valid_action": _mean([turn.valid_action for turn in turns]),
        "mixed_share": _mean(mixed),
    }


def _mean(values: Sequence[float]) -> float:
    return added(values) / len(values) if values else 0.0


def evaluate_policy(
    stage: SplitEnvs,
    encoder: PromptEncoder,
    sampler: Sampler,
    sampling: SamplingSettings,
    task_ids: Sequence[str],
    seed: int,
    *,
    on_episode: Callable[[int, Episode], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    ranks: Ranks | None = None,
) -> tuple[Evaluation, PlayResult]:
    """Play each task once for each time it is listed.

    Args:
        stage: Split to play.
        encoder: Prompt encoder of the policy.
        sampler: Sampler that holds the policy's weights.
        sampling: How replies are drawn.
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
    agent = PolicyAgent(encoder, sampler, sampling, EpisodeDraws())
    mine = play_episodes(
        stage.handle,
        stage.runner,
        agent,
        requests[share.start : share.stop],
        on_episode=on_episode,
        should_stop=should_stop,
    )
    result = joined(ranks.gather(mine))
    return summarise(stage.handle.env.tasks.split, result), result

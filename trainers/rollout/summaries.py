"""From played episodes to numbers: means of an evaluation, and of the groups of an iteration."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent_gym.core.info import StopReason
from agent_gym.play.driver import PlayResult
from agent_gym.play.episode import Episode
from agent_gym.support.arithmetic import added
from trainers.rollout.group_filter import is_mixed
from trainers.run.results import Evaluation


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

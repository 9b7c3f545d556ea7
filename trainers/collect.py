"""Sampling the groups of one iteration, with the dynamic filter deciding how many more are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from agent_gym.core.driver import EpisodeRequest, play_episodes
from agent_gym.core.episode import Episode
from agent_gym.core.errors import WorkerError
from agent_gym.core.info import StopReason
from agent_gym.core.seeding import derive_seed
from trainers.algorithms import AlgorithmConfig
from trainers.conversation import PromptEncoder
from trainers.filtering import FilterPlan, GroupOutcome
from trainers.rollout import PolicyAgent
from trainers.samplers.base import Sampler, SamplingSettings
from trainers.setup import Stage
from trainers.tasks import TaskSampler


@dataclass(frozen=True)
class Collected:
    """Groups of one iteration.

    Attributes:
        groups: Groups to train on.
        sampled: Everything sampled, before filtering.
        stats: Metrics of sampling and filtering.
    """

    groups: list[list[Episode]]
    sampled: list[list[Episode]]
    stats: dict[str, float]


class GroupCollector:
    """Samples groups of episodes that share a task.

    All randomness of an iteration derives from the run's seed and the iteration's number, so a resumed run
    samples what an unbroken one would have.

    Args:
        stage: Training split.
        encoder: Prompt encoder of the policy.
        sampler: Sampler with the policy's weights.
        sampling: How replies are drawn.
        tasks: Where tasks come from.
        algorithm: Reads the filter settings.
        groups: Groups in a batch.
        group_size: Episodes in a group.
        seed: Seed of the run.
    """

    def __init__(
        self,
        stage: Stage,
        encoder: PromptEncoder,
        sampler: Sampler,
        sampling: SamplingSettings,
        tasks: TaskSampler,
        algorithm: AlgorithmConfig,
        groups: int,
        group_size: int,
        seed: int,
    ) -> None:
        self._stage, self._encoder, self._sampler, self._sampling = stage, encoder, sampler, sampling
        self._tasks, self._algorithm = tasks, algorithm
        self._groups, self._group_size, self._seed = groups, group_size, seed

    def collect(self, iteration: int, on_episode: Callable[[int, Episode], None] | None = None) -> Collected:
        """Sample until the batch of an iteration is settled.

        Raises:
            WorkerError: The environment failed in every episode.
        """
        plan = FilterPlan.start(self._groups, self._algorithm, iteration)
        sampled: list[list[Episode]] = []
        n_error = 0
        while plan.shortfall:
            groups, errors = self._sample(plan.shortfall, iteration, plan.tries, len(sampled), on_episode)
            n_error += len(errors)
            outcomes = [
                GroupOutcome(
                    len(sampled) + number,
                    tuple(episode.reward for episode in group),
                    tuple(episode.success for episode in group),
                )
                for number, group in enumerate(groups)
                if group  # one in which every episode was lost fills no place
            ]
            sampled += groups
            plan = plan.add(outcomes)
            if errors and not any(groups):
                raise WorkerError(f"the environment failed in every episode; the first failure: {errors[0]}")
        stats = {**plan.stats(), "rollout/env_errors": float(n_error)}
        return Collected([sampled[group] for group in plan.selected()], sampled, stats)

    def _sample(
        self,
        count: int,
        iteration: int,
        attempt: int,
        first_group: int,
        on_episode: Callable[[int, Episode], None] | None,
    ) -> tuple[list[list[Episode]], list[str]]:
        requests = []
        for number, task_id in enumerate(self._tasks.draw(count)):
            group = first_group + number
            # One seed a group: its episodes start from the same state and differ by the policy's draws.
            seed = derive_seed(self._seed, "group", iteration, group)
            requests += [EpisodeRequest(task_id, seed, f"{iteration}/{group}")] * self._group_size
        generator = torch.Generator().manual_seed(derive_seed(self._seed, "draws", iteration, attempt))
        agent = PolicyAgent(self._encoder, self._sampler, self._sampling, generator)
        result = play_episodes(
            self._stage.face,
            self._stage.runner,
            agent,
            requests,
            on_episode=on_episode,
            policy_version=iteration,
        )
        size = self._group_size
        errors = list(result.errors.values())
        groups = []
        for start in range(0, len(requests), size):
            played = [episode for episode in result.episodes[start : start + size] if episode is not None]
            failed = [episode for episode in played if episode.stop_reason is StopReason.TOOL_ERROR]
            groups.append([episode for episode in played if episode.stop_reason is not StopReason.TOOL_ERROR])
            errors += [f"a tool behind task {episode.task_id!r} failed" for episode in failed]
        return groups, errors

"""Sampling the groups of one iteration, with the dynamic filter deciding how many more are needed.

With several environments a round of sampling plays one after the other, each as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent_gym.core.info import StopReason
from agent_gym.play.driver import PlayResult, play_episodes
from agent_gym.play.episode import Episode
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.errors import WorkerError
from agent_gym.support.seeding import derive_seed
from trainers.policy.ranks import Ranks
from trainers.rollout.agent import EpisodeDraws, PolicyAgent
from trainers.rollout.conversation import PromptEncoder
from trainers.rollout.environments import TrainEnv, TrainEnvs
from trainers.rollout.group_filter import FilterPlan, GroupOutcome
from trainers.rollout.samplers.base import Sampler
from trainers.settings.algorithm import AlgorithmConfig
from trainers.settings.sampling import SamplingSettings


@dataclass(frozen=True)
class Collected:
    """Groups of one iteration.

    Attributes:
        groups: Groups to train on.
        sampled: Everything sampled, before filtering.
        stats: Metrics of sampling and filtering.
        env: Environment of each group of `sampled`, by number.
    """

    groups: list[list[Episode]]
    sampled: list[list[Episode]]
    stats: dict[str, float]
    env: tuple[int, ...]

    def by_env(self, count: int) -> list[list[list[Episode]]]:
        """Return the sampled groups of each of `count` environments."""
        found: list[list[list[Episode]]] = [[] for _ in range(count)]
        for index, group in zip(self.env, self.sampled, strict=True):
            found[index].append(group)
        return found


class GroupCollector:
    """Samples groups of episodes that share a task.

    All randomness of an iteration derives from the run's seed and the iteration's number, so a resumed run
    samples what an unbroken one would have.

    Args:
        envs: The environments, and where their tasks come from.
        encoder: Makes the prompt encoder of an environment.
        sampler: Sampler with the policy's weights.
        sampling: How replies are drawn.
        algorithm: Reads the filter settings.
        groups: Groups in a batch.
        group_size: Episodes in a group.
        seed: Seed of the run.
        ranks: The processes that sample together; all of them call `collect`.
    """

    def __init__(
        self,
        envs: TrainEnvs,
        encoder: Callable[[TrainEnv], PromptEncoder],
        sampler: Sampler,
        *,
        sampling: SamplingSettings,
        algorithm: AlgorithmConfig,
        groups: int,
        group_size: int,
        seed: int,
        ranks: Ranks | None = None,
    ) -> None:
        self._envs, self._make_encoder, self._sampler, self._sampling = envs, encoder, sampler, sampling
        self._encoders: dict[tuple[int, int], PromptEncoder] = {}
        self._algorithm = algorithm
        self._groups, self._group_size, self._seed = groups, group_size, seed
        self._ranks = ranks or Ranks()

    def collect(self, iteration: int) -> Collected:
        """Sample until the batch of an iteration is settled; every process gets the groups of all.

        Raises:
            WorkerError: The environment failed in every episode.
        """
        plan = FilterPlan.start(self._groups, self._algorithm, iteration)
        sampled: list[list[Episode]] = []
        env_index: list[int] = []
        n_error = 0
        while plan.shortfall:
            drawn = self._envs.draw(plan.shortfall)
            env_index += [index for index, _ in drawn]
            groups, errors = self._sample(drawn, iteration, len(sampled))
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
        return Collected([sampled[group] for group in plan.selected()], sampled, stats, tuple(env_index))

    def _sample(
        self,
        drawn: Sequence[tuple[int, str]],
        iteration: int,
        first_group: int,
    ) -> tuple[list[list[Episode]], list[str]]:
        """Play one round; returns its groups in the order they were drawn, and what failed."""
        tasks: dict[int, dict[int, str]] = {}
        for number, (index, task) in enumerate(drawn):
            tasks.setdefault(index, {})[first_group + number] = task
        indices = sorted(tasks)
        # One exchange for all environments, so that the processes wait for each other once.
        shares = self._ranks.gather([self._play(index, tasks[index], iteration) for index in indices])
        found: dict[int, list[Episode]] = {}
        errors: list[str] = []
        for index, results in zip(indices, zip(*shares, strict=True), strict=True):
            groups, failed = self._sorted_out(tasks[index], joined(results))
            found |= groups
            errors += failed
        return [found[group] for group in sorted(found)], errors

    def _play(
        self,
        index: int,
        tasks: Mapping[int, str],
        iteration: int,
    ) -> PlayResult:
        """Play this process's share of the groups of one environment, given by number and task."""
        requests = []
        draws = []
        for group, task_id in tasks.items():
            # One seed a group: its episodes start from the same state and differ by the policy's draws.
            seed = derive_seed(self._seed, "group", iteration, group)
            requests += [EpisodeRequest(task_id, seed, f"{iteration}/{group}")] * self._group_size
            draws += [derive_seed(self._seed, "draws", iteration, group, n) for n in range(self._group_size)]
        share = self._ranks.share(len(requests))
        mine = slice(share.start, share.stop)
        env = self._envs.envs[index]
        return play_episodes(
            env.train.handle,
            env.train.runner,
            PolicyAgent(self._encoder(index), self._sampler, self._sampling, EpisodeDraws(draws[mine])),
            requests[mine],
            policy_version=iteration,
        )

    def _sorted_out(
        self, tasks: Mapping[int, str], result: PlayResult
    ) -> tuple[dict[int, list[Episode]], list[str]]:
        """Return the usable episodes of each group, and what failed."""
        size = self._group_size
        errors = list(result.errors.values())
        groups = {}
        for number, group in enumerate(tasks):
            there = result.episodes[number * size : (number + 1) * size]
            played = [episode for episode in there if episode is not None]
            failed = [episode for episode in played if episode.stop_reason is StopReason.TOOL_ERROR]
            groups[group] = [episode for episode in played if episode.stop_reason is not StopReason.TOOL_ERROR]
            errors += [f"a tool behind task {episode.task_id!r} failed" for episode in failed]
        return groups, errors

    def _encoder(self, index: int) -> PromptEncoder:
        """Return the encoder of an environment at its current stage."""
        env = self._envs.envs[index]
        key = (index, env.curriculum.stage)
        if key not in self._encoders:
            self._encoders = {known: made for known, made in self._encoders.items() if known[0] != index}
            self._encoders[key] = self._make_encoder(env)
        return self._encoders[key]


def joined(results: Sequence[PlayResult]) -> PlayResult:
    """Return the results of all processes as one, in the order of ranks."""
    if len(results) == 1:
        return results[0]
    whole = PlayResult([], {})
    for result in results:
        first = len(whole.episodes)
        whole.episodes.extend(result.episodes)
        whole.errors.update({first + index: text for index, text in result.errors.items()})
    return whole

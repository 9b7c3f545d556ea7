"""The environments that a run trains on, each with its tasks and its place in its curriculum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_gym.core.prompts import PromptBuilder, template_for
from agent_gym.core.tasks import TaskSet
from agent_gym.play.driver import EnvHandle
from agent_gym.play.episode import Episode
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.runner import EnvRunner, InProcessRunner
from trainers.rollout.curriculum import Curriculum, apportion, deal
from trainers.rollout.summaries import summarise_groups
from trainers.rollout.task_order import TaskSampler
from trainers.settings.env import EnvSettings, Part, at_stage, parts
from trainers.settings.run import TrainConfig


@dataclass(frozen=True)
class SplitEnvs:
    """One split of the environment and the processes or slots that play it.

    Attributes:
        handle: Environment of the split: grammar, prompts, tasks.
        runner: Its environments.
    """

    handle: EnvHandle
    runner: EnvRunner

    @classmethod
    def make(cls, settings: EnvSettings, split: str, slots: int) -> SplitEnvs:
        """Make the environments of a split with room for `slots` running episodes."""
        options = {**settings.options, "split": split}
        handle = EnvHandle.make(settings.id, options, settings.reply_mode)
        runner: EnvRunner
        if settings.ray is not None:
            from agent_gym.play.ray_pool import RayPoolRunner

            runner = RayPoolRunner(handle.env_id, options, slots, settings.workers or None, address=settings.ray)
        elif settings.workers:
            runner = ProcessPoolRunner(handle.env_id, options, slots, settings.workers)
        else:
            runner = InProcessRunner((handle.env_id, options), slots)
        return cls(handle, runner)

    def close(self) -> None:
        """Close the environments."""
        self.runner.close()
        self.handle.env.close()


def prompt_builder(handle: EnvHandle, settings: EnvSettings) -> PromptBuilder:
    """Return the prompt builder that the settings describe."""
    return PromptBuilder(template_for(handle.env, settings.prompt), settings.history_length, settings.thoughts)


class TrainEnv:
    """One environment of a run.

    Args:
        part: Name, weight and settings.
        train: Training split at the current difficulty.
        tasks: Where its tasks come from.
        test: Test split, at the difficulty that the run aims at; None where nothing is evaluated.
    """

    def __init__(self, part: Part, train: SplitEnvs, tasks: TaskSampler, test: SplitEnvs | None = None) -> None:
        self.name, self.weight, self.settings = part.name, part.weight, part.settings
        self.train, self.tasks, self._test = train, tasks, test
        self.curriculum = Curriculum(part.settings.stages)
        self.dealt = 0

    @property
    def test(self) -> SplitEnvs:
        """The test split."""
        assert self._test is not None
        return self._test

    @property
    def current(self) -> EnvSettings:
        """Settings of the environment at the current stage."""
        return at_stage(self.settings, self.curriculum.stage)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the environment at the current stage."""
        return self.current.options

    def stage_sentence(self) -> str:
        """Return where the curriculum stands, for people."""
        of = f" of {self.name}" if self.name else ""
        return f"Curriculum{of}: stage {self.curriculum.stage + 1} of {len(self.settings.stages)}"

    def close(self) -> None:
        """Close the environments."""
        self.train.close()
        if self._test is not None:
            self._test.close()


class TrainEnvs:
    """All environments of a run.

    Args:
        envs: The environments.
        seed: Seed of the task orders.
        slots: Most episodes that one environment plays at once in training.
    """

    def __init__(self, envs: Sequence[TrainEnv], seed: int = 0, slots: int = 1) -> None:
        self.envs = tuple(envs)
        self._seed, self._slots = seed, slots

    @classmethod
    def make(cls, config: TrainConfig, processes: int = 1) -> TrainEnvs:
        """Make the environments that settings describe, for one of several processes that share the episodes.

        Raises:
            ConfigError: An id or an option is unknown.
        """
        episodes = config.rollout.groups * config.rollout.group_size
        slots = min(config.rollout.max_parallel, -(-episodes // processes))
        chosen = parts(config.env)
        shares = apportion(config.cloning.episodes, [part.weight for part in chosen])
        envs: list[TrainEnv] = []
        try:
            for part, cloned in zip(chosen, shares, strict=True):
                train = SplitEnvs.make(at_stage(part.settings, 0), part.settings.train_split, slots)
                tasks = _sampler(train.handle.env.tasks, part.settings, config.seed, cloned)
                env = TrainEnv(part, train, tasks)
                envs.append(env)
                goal = at_stage(part.settings, -1)
                env._test = SplitEnvs.make(goal, goal.test_split, config.rollout.max_parallel)
        except BaseException:
            for env in envs:
                env.close()
            raise
        return cls(envs, config.seed, slots)

    @property
    def several(self) -> bool:
        """Whether there is more than one environment."""
        return len(self.envs) > 1

    def draw(self, count: int) -> list[tuple[int, str]]:
        """Return the next groups: which environment plays which task."""
        weights = [env.weight for env in self.envs]
        order = deal(count, weights, [env.dealt for env in self.envs])
        drawn = []
        for place in order:
            env = self.envs[place]
            env.dealt += 1
            drawn.append((place, env.tasks.draw(1)[0]))
        return drawn

    def count_iteration(
        self, groups: Sequence[Sequence[Sequence[Episode]]]
    ) -> tuple[dict[str, float], list[TrainEnv]]:
        """Count an iteration in every curriculum.

        Args:
            groups: Groups sampled in each environment.

        Returns:
            Metrics of each environment where there are several, and the environments that begin a new stage.
        """
        found = [summarise_groups(sampled) for sampled in groups]
        metrics = {
            f"env/{env.name}/{name}": value
            for env, values in zip(self.envs, found, strict=True)
            for name, value in values.items()
            if self.several
        }
        moved = [
            env
            for env, values in zip(self.envs, found, strict=True)
            if env.curriculum.advance(values.get("success"))
        ]
        for env in moved:
            self._enter(env)
        return metrics, moved

    def _enter(self, env: TrainEnv) -> None:
        """Make the environment of a new stage; tasks go on where they are if the stage has the same ones."""
        before = _list_of(env.train)
        env.train.close()
        env.train = SplitEnvs.make(env.current, env.settings.train_split, self._slots)
        position = env.tasks.position if _list_of(env.train) == before else 0
        env.tasks = _sampler(env.train.handle.env.tasks, env.settings, self._seed, position)

    def env_seconds(self) -> float:
        """Return the seconds that this process has spent in the training environments as they are now."""
        return sum(env.train.runner.seconds for env in self.envs)

    def metrics(self) -> dict[str, float]:
        """Return the stage of every curriculum, counted from 1."""
        return {
            f"env/{env.name}/stage" if self.several else "curriculum/stage": float(env.curriculum.stage + 1)
            for env in self.envs
            if env.settings.stages
        }

    def state_dict(self) -> list[dict[str, Any]]:
        """Return what a checkpoint holds: positions, counts and places in the curricula, as JSON data."""
        return [
            {
                "dealt": env.dealt,
                "position": env.tasks.position,
                "course": env.curriculum.state_dict(),
            }
            for env in self.envs
        ]

    def load_state_dict(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Take over a state; environments of later stages are made again."""
        for env, found in zip(self.envs, state, strict=True):
            env.dealt = int(found["dealt"])
            env.curriculum.load_state_dict(found["course"])
            if env.curriculum.stage:
                self._enter(env)
            env.tasks.position = int(found["position"])

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


def _list_of(split: SplitEnvs) -> tuple[str, str]:
    """Return what is equal for splits of the same tasks; records are not read, as there may be a million."""
    env = split.handle.env
    return env.tasks.digest(), env.world_digest()


def _sampler(tasks: TaskSet, settings: EnvSettings, seed: int, position: int) -> TaskSampler:
    """Return a sampler of training tasks; without a pool it starts behind the tasks that were played already."""
    if settings.pool_size is not None:
        return TaskSampler(tasks[: settings.pool_size], seed)
    return TaskSampler(tasks, seed, position=position)

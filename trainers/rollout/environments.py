"""The environments that a run trains on, each with its tasks and its place in its curriculum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_gym.core.tasks import TaskSet
from trainers.rollout.curriculum import Course, Part, apportion, at_stage, deal, parts
from trainers.rollout.task_order import TaskSampler
from trainers.settings.config import EnvSettings, TrainConfig
from trainers.setup import Stage


class Lane:
    """One environment of a run.

    Args:
        part: Name, weight and settings.
        train: Training split at the current difficulty.
        tasks: Where its tasks come from.
        test: Test split, at the difficulty that the run aims at; None where nothing is evaluated.
    """

    def __init__(self, part: Part, train: Stage, tasks: TaskSampler, test: Stage | None = None) -> None:
        self.name, self.weight, self.settings = part.name, part.weight, part.settings
        self.train, self.tasks, self._test = train, tasks, test
        self.course = Course(part.settings.stages)
        self.dealt = 0

    @property
    def test(self) -> Stage:
        """The test split."""
        assert self._test is not None
        return self._test

    @property
    def current(self) -> EnvSettings:
        """Settings of the environment at the current stage."""
        return at_stage(self.settings, self.course.stage)

    def close(self) -> None:
        """Close the environments."""
        self.train.close()
        if self._test is not None:
            self._test.close()


class Lanes:
    """All environments of a run.

    Args:
        lanes: The environments.
        seed: Seed of the task orders.
        slots: Most episodes that one environment plays at once in training.
    """

    def __init__(self, lanes: Sequence[Lane], seed: int = 0, slots: int = 1) -> None:
        self.lanes = tuple(lanes)
        self._seed, self._slots = seed, slots

    @classmethod
    def make(cls, config: TrainConfig, processes: int = 1) -> Lanes:
        """Make the environments that settings describe, for one of several processes that share the episodes.

        Raises:
            ConfigError: An id or an option is unknown.
        """
        episodes = config.rollout.groups * config.rollout.group_size
        slots = min(config.rollout.max_parallel, -(-episodes // processes))
        chosen = parts(config.env)
        shares = apportion(config.cloning.episodes, [part.weight for part in chosen])
        lanes: list[Lane] = []
        try:
            for part, cloned in zip(chosen, shares, strict=True):
                train = Stage.make(at_stage(part.settings, 0), part.settings.train_split, slots)
                tasks = _sampler(train.face.env.tasks, part.settings, config.seed, cloned)
                lane = Lane(part, train, tasks)
                lanes.append(lane)
                goal = at_stage(part.settings, -1)
                lane._test = Stage.make(goal, goal.test_split, config.rollout.max_parallel)
        except BaseException:
            for lane in lanes:
                lane.close()
            raise
        return cls(lanes, config.seed, slots)

    @property
    def several(self) -> bool:
        """Whether there is more than one environment."""
        return len(self.lanes) > 1

    def draw(self, count: int) -> list[tuple[int, str]]:
        """Return the next groups: which environment plays which task."""
        weights = [lane.weight for lane in self.lanes]
        order = deal(count, weights, [lane.dealt for lane in self.lanes])
        drawn = []
        for place in order:
            lane = self.lanes[place]
            lane.dealt += 1
            drawn.append((place, lane.tasks.draw(1)[0]))
        return drawn

    def advance(self, success: Sequence[float | None]) -> list[Lane]:
        """Count an iteration in every curriculum.

        Args:
            success: Training success of each environment; None where it played nothing.

        Returns:
            The environments that begin a new stage.
        """
        moved = [lane for lane, found in zip(self.lanes, success, strict=True) if lane.course.advance(found)]
        for lane in moved:
            self._enter(lane)
        return moved

    def _enter(self, lane: Lane) -> None:
        """Make the environment of the lane's stage; tasks go on where they are if the stage has the same ones."""
        before = _list_of(lane.train)
        lane.train.close()
        lane.train = Stage.make(lane.current, lane.settings.train_split, self._slots)
        position = lane.tasks.position if _list_of(lane.train) == before else 0
        lane.tasks = _sampler(lane.train.face.env.tasks, lane.settings, self._seed, position)

    def env_seconds(self) -> float:
        """Return the seconds that this process has spent in the training environments as they are now."""
        return sum(lane.train.runner.seconds for lane in self.lanes)

    def metrics(self) -> dict[str, float]:
        """Return the stage of every curriculum, counted from 1."""
        return {
            f"env/{lane.name}/stage" if self.several else "curriculum/stage": float(lane.course.stage + 1)
            for lane in self.lanes
            if lane.settings.stages
        }

    def state_dict(self) -> list[dict[str, Any]]:
        """Return what a checkpoint holds: positions, counts and places in the curricula, as JSON data."""
        return [
            {"dealt": lane.dealt, "position": lane.tasks.position, "course": lane.course.state_dict()}
            for lane in self.lanes
        ]

    def load_state_dict(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Take over a state; environments of later stages are made again."""
        for lane, found in zip(self.lanes, state, strict=True):
            lane.dealt = int(found["dealt"])
            lane.course.load_state_dict(found["course"])
            if lane.course.stage:
                self._enter(lane)
            lane.tasks.position = int(found["position"])

    def close(self) -> None:
        """Close every environment."""
        for lane in self.lanes:
            lane.close()


def _list_of(stage: Stage) -> tuple[str, str]:
    """Return what is equal for stages of the same tasks; records are not read, as there may be a million."""
    env = stage.face.env
    return env.tasks.digest(), env.world_digest()


def _sampler(tasks: TaskSet, settings: EnvSettings, seed: int, position: int) -> TaskSampler:
    """Return a sampler of training tasks; without a pool it starts behind the tasks that were played already."""
    if settings.pool_size is not None:
        return TaskSampler(tasks[: settings.pool_size], seed)
    return TaskSampler(tasks, seed, position=position)

"""Playing a recorded episode again to see whether it gives the same observations, rewards and flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from agent_gym.core.info import StopReason
from agent_gym.core.replies import RejectedReply
from agent_gym.play.episode import Episode, Turn
from agent_gym.play.host import IdMaker
from agent_gym.support.errors import DataError, InvalidActionError, ReplayMismatchError

_SHOWN = 160
_SET_BY_ROLLOUT = (StopReason.RUNNING, StopReason.CONTEXT_OVERFLOW, StopReason.ABORTED)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What came of a replay.

    Attributes:
        task_id: Task that was played again.
        turns: Turns that agreed.
        reward: Sum of the rewards received in the replay.
        mismatch: First difference, naming the turn, the recorded and the replayed value; "" when none.
    """

    task_id: str
    turns: int
    reward: float
    mismatch: str = ""

    @property
    def matches(self) -> bool:
        """Whether the replay agreed with the record."""
        return not self.mismatch

    def check(self) -> None:
        """Raise unless the replay agreed.

        Raises:
            ReplayMismatchError: It did not.
        """
        if self.mismatch:
            raise ReplayMismatchError(f"task {self.task_id!r}: {self.mismatch}")


def replay(
    episode: Episode, env: gym.Env[Any, Any] | None = None, *, task: Mapping[str, Any] | str | None = None
) -> ReplayReport:
    """Play a recorded episode again.

    A turn whose reply held no action is replayed as the rejected reply that it was. The replay ends at the
    first difference.

    Args:
        episode: The recorded episode.
        env: Environment to play in; made from the episode's id and arguments, and closed, when None.
        task: Record of the task, for an episode of a task that is in no list (`custom/...`).

    Raises:
        ConfigError: The episode's environment or one of its arguments does not exist here.
        UnknownTaskError: The environment does not hold the task.
        DataError: The episode is of a custom task and `task` is None.
    """
    if env is not None:
        return _replay(episode, env, task)
    made = IdMaker(episode.env_id, dict(episode.env_kwargs))()
    try:
        return _replay(episode, made, task)
    finally:
        made.close()


def replayed_states(
    episode: Episode, env: gym.Env[Any, Any], *, task: Mapping[str, Any] | str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield observation and info before each recorded turn, playing the actions again.

    Args:
        episode: The recorded episode.
        env: Environment to play in.
        task: Record of the task, for an episode of a task that is in no list.

    Raises:
        ReplayMismatchError: An observation is not the recorded one, or the replay ends early.
        DataError: The episode is of a custom task and `task` is None.
    """
    observation, info = _start(episode, env, task)
    for index, turn in enumerate(episode.turns):
        if observation != turn.observation or info["stop_reason"]:
            what = _differ("observation", turn.observation, observation)
            raise ReplayMismatchError(f"task {episode.task_id!r}: turn {index + 1}, {what}")
        yield observation, info
        if index + 1 < len(episode.turns):
            observation, _, _, _, info = env.step(_action(turn))


def _replay(episode: Episode, env: gym.Env[Any, Any], task: Any) -> ReplayReport:
    observation, info = _start(episode, env, task)
    total, ended = 0.0, False
    if info["task_id"] != episode.task_id:
        return ReplayReport(episode.task_id, 0, total, _differ("task", episode.task_id, info["task_id"]))
    for index, turn in enumerate(episode.turns):
        where = f"turn {index + 1}, "
        if ended:
            mismatch = f"{where}the replay had ended before it ({info['stop_reason']})"
            return ReplayReport(episode.task_id, index, total, mismatch)
        if observation != turn.observation:
            mismatch = where + _differ("observation", turn.observation, observation)
            return ReplayReport(episode.task_id, index, total, mismatch)
        try:
            observation, reward, terminated, truncated, info = env.step(_action(turn))
        except InvalidActionError as error:
            return ReplayReport(episode.task_id, index, total, f"{where}the replay raised: {error}")
        ended = terminated or truncated
        total += float(reward)
        for name, recorded, found in (
            ("reward", turn.reward, float(reward)),
            ("valid_action", turn.valid_action, info["valid_action"]),
        ):
            if recorded != found:
                return ReplayReport(episode.task_id, index, total, where + _differ(name, recorded, found))
    return ReplayReport(episode.task_id, len(episode.turns), total, _ending(episode, observation, info, ended))


def _start(episode: Episode, env: gym.Env[Any, Any], task: Any) -> tuple[str, dict[str, Any]]:
    if task is not None:
        return env.reset(seed=episode.seed, options={"task": task})
    if episode.task_id.startswith("custom/"):
        raise DataError(
            f"task {episode.task_id!r} is in no list; give its record to replay it: replay(episode, task=record)"
        )
    if episode.seed is not None:
        # A drawn task and a pinned one leave the environment's generator in different states.
        observation, info = env.reset(seed=episode.seed)
        if info["task_id"] == episode.task_id:
            return observation, info
    return env.reset(seed=episode.seed, options={"task_id": episode.task_id})


def _action(turn: Turn) -> str:
    return RejectedReply(turn.reply, turn.reason) if turn.action is None else turn.action


def _ending(episode: Episode, observation: str, info: Mapping[str, Any], ended: bool) -> str:
    recorded = StopReason.RUNNING if episode.stop_reason in _SET_BY_ROLLOUT else episode.stop_reason
    for name, expected, found in (
        ("final observation", episode.final_observation, observation),
        ("success", episode.success, info["success"]),
        ("score", episode.score, info["score"]),
        ("stop reason", recorded.value, info["stop_reason"] if ended else ""),
    ):
        if expected != found:
            return "at the end, " + _differ(name, expected, found)
    return ""


def _differ(name: str, recorded: object, found: object) -> str:
    if isinstance(recorded, str) and isinstance(found, str):
        pairs = enumerate(zip(recorded, found, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(recorded), len(found)))
        if max(len(recorded), len(found)) > _SHOWN:
            start = max(0, at - 40)
            recorded, found = recorded[start : start + _SHOWN], found[start : start + _SHOWN]
            return f"{name} differs from character {at} on: recorded ...{recorded!r}, replayed ...{found!r}"
    return f"{name} differs: recorded {recorded!r}, replayed {found!r}"

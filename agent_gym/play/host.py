"""Environments in numbered slots, driven by plain commands: the batch runner without its transport.

A `SlotHost` lives in the caller's process or in a worker; whoever owns it sends it resets and actions by slot
number and gets `Observed` tuples back. Everything that crosses is picklable.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
from gymnasium.error import Error as GymnasiumError
from gymnasium.error import ResetNeeded

from agent_gym.core.make import make_env
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.errors import AgentGymError, WorkerError
from agent_gym.support.faults import told
from agent_gym.support.seeding import stable_hash

_SHOWN = 80

EnvSource: TypeAlias = Callable[[], gym.Env[Any, Any]] | tuple[str, Mapping[str, Any]]
"""What makes an environment: a function, or an id with its arguments."""


class Observed(NamedTuple):
    """What an environment returned; after a reset the reward is 0 and both flags are False."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    def digest(self) -> str:
        """Return a hash of what must repeat when the episode is re-run: observation, reward, flags, task."""
        return stable_hash(
            self.observation,
            float(self.reward),
            bool(self.terminated),
            bool(self.truncated),
            str(self.info.get("task_id", "")),
        )


def environment_maker(source: EnvSource) -> Callable[[], gym.Env[Any, Any]]:
    """Return a function that makes environments from a function or from an id with arguments."""
    if callable(source):
        return source
    env_id, kwargs = source
    return IdMaker(env_id, dict(kwargs))


class IdMaker:
    """Picklable function that makes the environment of an id.

    Args:
        env_id: A registered id, or `module:id` to import a module that registers it first.
        kwargs: Arguments of the environment.
    """

    def __init__(self, env_id: str, kwargs: dict[str, Any]) -> None:
        self.env_id = env_id
        # Gymnasium's passive checker costs time at every step and fails after a step that raised.
        self.kwargs = {"disable_env_checker": True, **kwargs}

    def __call__(self) -> gym.Env[Any, Any]:
        """Make one environment."""
        return make_env(self.env_id, self.kwargs)


class SlotHost:
    """Environments of some slots; an environment is made when its slot is first reset.

    Package and Gymnasium errors pass as they are. Any other exception inside an environment becomes a
    `WorkerError` that names the place in its code and carries the traceback's text as a note. The slot's
    environment is thrown away, because its state is unknown; the slot works again after a reset.

    Args:
        make: Makes one environment.
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]]) -> None:
        self._make = make
        self._envs: dict[int, gym.Env[Any, Any]] = {}
        self._spare: gym.Env[Any, Any] | None = None
        self._task_ids: dict[int, str] = {}

    def prepare(self) -> None:
        """Make one environment ahead, so that faulty arguments and slow loading show at once."""
        if self._spare is None and not self._envs:
            self._spare = self._make()

    def reset(self, slot: int, request: EpisodeRequest) -> Observed:
        """Start an episode in a slot."""
        options = None if request.task_id is None else {"task_id": request.task_id}
        self._task_ids.pop(slot, None)  # a reset that fails leaves no episode to go on with
        try:
            env = self._envs.get(slot)
            if env is None:
                env, self._spare = self._spare or self._make(), None
                self._envs[slot] = env
            observation, info = env.reset(seed=request.seed, options=options)
        except (AgentGymError, GymnasiumError):
            raise
        except Exception as error:
            raise self._broken(slot, f"reset with {request}", error) from error
        self._task_ids[slot] = str(info.get("task_id", ""))
        return Observed(observation, 0.0, False, False, info)

    def step(self, slot: int, action: str) -> Observed:
        """Take one turn in a slot.

        Raises:
            ResetNeeded: No episode is running in the slot.
            WorkerError: The environment raised something that is not an error of this package.
        """
        env = self._running(slot)
        try:
            observation, reward, terminated, truncated, info = env.step(action)
        except (AgentGymError, GymnasiumError):
            raise
        except Exception as error:
            raise self._broken(slot, f"action {shorten(action)}", error) from error
        return Observed(observation, float(reward), bool(terminated), bool(truncated), info)

    def oracle(self, slot: int) -> str:
        """Return the expert's next action in a slot."""
        env = self._running(slot)
        try:
            return str(env.unwrapped.oracle_action())  # type: ignore[attr-defined]
        except (AgentGymError, GymnasiumError):
            raise
        except Exception as error:
            raise self._broken(slot, "the oracle's action", error) from error

    def rerun(
        self, slot: int, request: EpisodeRequest, actions: Sequence[str], digests: Sequence[str]
    ) -> Iterator[int]:
        """Bring a slot to where another host's slot was, checking every step; yields the steps done so far.

        Args:
            slot: Slot to bring there.
            request: What was asked for, with the seed that was used.
            actions: Actions taken since.
            digests: `Observed.digest` of the reset and of each step, one more than actions.

        Raises:
            WorkerError: The episode does not repeat: the environment is not deterministic.
        """
        for done, digest in enumerate(digests):
            try:
                observed = self.reset(slot, request) if done == 0 else self.step(slot, actions[done - 1])
                same, detail = observed.digest() == digest, "shows another observation, reward, flag or task"
            except (AgentGymError, GymnasiumError) as error:
                same, detail = False, f"raises {type(error).__name__}: {error}"
            if not same:
                env = self._envs.pop(slot, None)
                self._task_ids.pop(slot, None)
                name = "The environment" if env is None else type(env.unwrapped).__name__
                what = f"reset with {request}" if done == 0 else f"turn {done}, action {shorten(actions[done - 1])}"
                raise WorkerError(
                    f"{name} is not deterministic: re-running slot {slot} after its worker was lost, {what} "
                    f"{detail} than before. Make all that is visible depend on the seed and the actions only"
                )
            yield done

    def close(self) -> None:
        """Close every environment."""
        for env in (*self._envs.values(), *([self._spare] if self._spare else [])):
            env.close()
        self._envs.clear()
        self._spare = None

    def _running(self, slot: int) -> gym.Env[Any, Any]:
        env = self._envs.get(slot)
        if env is None or slot not in self._task_ids:
            raise ResetNeeded(f"slot {slot} runs no episode; call reset() for it first")
        return env

    def _broken(self, slot: int, doing: str, error: Exception) -> WorkerError:
        env = self._envs.pop(slot, None)
        task_id = self._task_ids.pop(slot, "")
        name = "the environment" if env is None else type(env.unwrapped).__name__
        failure = WorkerError(
            f"{name} in slot {slot} failed at {doing} (task {task_id!r}), a fault of the environment: {told(error)}"
        )
        failure.add_note("".join(traceback.format_exception(error)).rstrip())  # goes along between processes
        return failure


def shorten(text: str) -> str:
    """Return the text's repr, cut to a length that fits a message."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")

"""Many environments at once, for rollouts.

An `EnvRunner` has numbered slots, each with one environment. Every call names the slots it is about; the
others stay as they are, so episodes of different length need no padding and a finished slot can take the next
episode at once. `InProcessRunner` keeps the environments in the caller's process, `ProcessPoolRunner` (module
`pool`) in worker processes; with equal seeds both give equal transcripts.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from agent_gym.play.host import EnvSource, Observed, SlotHost, environment_maker
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.errors import ConfigError

_SEED_BITS = 63

A = TypeVar("A")
R = TypeVar("R")


class EnvRunner(ABC):
    """Environments in slots 0 to `n_slots - 1`.

    When a slot fails in a call, the call still finishes the other slots it names and raises the first failure
    afterwards; `last_results` (of `oracle`: `last_actions`) and `last_errors` then hold what each slot did, so that
    a rollout can drop one episode and go on with the rest. A call that fails as a whole, for want of a worker,
    leaves them empty.

    Args:
        n_slots: Number of slots.

    Attributes:
        seconds: Wall-clock seconds spent in resets, steps and oracle actions so far.

    Raises:
        ConfigError: `n_slots` is below 1.
    """

    def __init__(self, n_slots: int) -> None:
        if n_slots < 1:
            raise ConfigError(f"n_slots must be at least 1, got {n_slots}")
        self.n_slots = n_slots
        self.seconds = 0.0
        self.last_results: dict[int, Observed] = {}
        self.last_actions: dict[int, str] = {}
        self.last_errors: dict[int, Exception] = {}
        self._requests: dict[int, EpisodeRequest] = {}

    def reset(self, requests: Mapping[int, EpisodeRequest]) -> dict[int, Observed]:
        """Start an episode in each of the slots named.

        Args:
            requests: Slot -> episode; one without a seed gets a drawn one (see `request_of`).

        Returns:
            Slot -> what it shows, in the order given.

        Raises:
            ConfigError: A slot does not exist.
            WorkerError: An environment failed.
            AgentGymError: An environment refused the request, for example an unknown task id.
        """
        self._check(requests)
        seeded = {slot: self._seeded(request) for slot, request in requests.items()}
        self._requests.update(seeded)
        return self._settle(*self._timed(self._reset, seeded))

    def step(self, actions: Mapping[int, str]) -> dict[int, Observed]:
        """Take one turn in each of the slots named.

        Args:
            actions: Slot -> action, or a `RejectedReply` where the reply held none.

        Returns:
            Slot -> what it shows, in the order given.

        Raises:
            ConfigError: A slot does not exist.
            ResetNeeded: A slot runs no episode.
            WorkerError: An environment failed.
            InvalidActionError: An action was not accepted under `invalid_action="raise"`.
        """
        self._check(actions)
        return self._settle(*self._timed(self._step, actions))

    def oracle(self, slots: Iterable[int]) -> dict[int, str]:
        """Return the expert's next action for each of the slots named.

        Raises:
            ResetNeeded: A slot runs no episode.
            WorkerError: An environment failed.
            AgentGymError: The expert knows no way on: the task cannot be solved, or not within its budget.
        """
        wanted = list(slots)
        self._check(wanted)
        actions, errors = self._timed(self._oracle, wanted)
        self.last_actions, self.last_errors = actions, errors
        for slot in wanted:
            if slot in errors:
                raise errors[slot]
        return actions

    def request_of(self, slot: int) -> EpisodeRequest:
        """Return the request of the slot's latest episode, with the seed that was used.

        Raises:
            ConfigError: The slot has had no episode.
        """
        if slot not in self._requests:
            raise ConfigError(f"slot {slot} has had no episode; call reset() for it first")
        return self._requests[slot]

    @abstractmethod
    def close(self) -> None:
        """Close every environment; the runner cannot be used afterwards. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What a runner supplies: results and failures by slot ------------------------------------------------

    @abstractmethod
    def _reset(
        self, requests: Mapping[int, EpisodeRequest]
    ) -> tuple[dict[int, Observed], dict[int, Exception]]: ...

    @abstractmethod
    def _step(self, actions: Mapping[int, str]) -> tuple[dict[int, Observed], dict[int, Exception]]: ...

    @abstractmethod
    def _oracle(self, slots: list[int]) -> tuple[dict[int, str], dict[int, Exception]]: ...

    def _timed(self, work: Callable[[A], R], argument: A) -> R:
        # A call that fails as a whole must not leave what the one before it returned.
        self.last_results, self.last_actions, self.last_errors = {}, {}, {}
        begin = time.perf_counter()
        try:
            return work(argument)
        finally:
            self.seconds += time.perf_counter() - begin

    def _check(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if not 0 <= slot < self.n_slots:
                raise ConfigError(f"no slot {slot}; this runner has slots 0 to {self.n_slots - 1}")

    def _seeded(self, request: EpisodeRequest) -> EpisodeRequest:
        if request.seed is not None:
            return request
        return replace(request, seed=secrets.randbits(_SEED_BITS))

    def _settle(self, results: dict[int, Observed], errors: dict[int, Exception]) -> dict[int, Observed]:
        self.last_results, self.last_errors = results, errors
        for error in errors.values():
            raise error
        return results


class InProcessRunner(EnvRunner):
    """Environments in the caller's process, made when their slot is first reset.

    Args:
        source: Function that makes one environment, or an id with its arguments.
        n_slots: Number of slots.
    """

    def __init__(self, source: EnvSource, n_slots: int) -> None:
        super().__init__(n_slots)
        self._host = SlotHost(environment_maker(source))
        self._closed = False

    def close(self) -> None:
        """Close every environment."""
        if not self._closed:
            self._closed = True
            self._host.close()

    def _reset(self, requests: Mapping[int, EpisodeRequest]) -> tuple[dict[int, Observed], dict[int, Exception]]:
        return self._each(self._host.reset, requests)

    def _step(self, actions: Mapping[int, str]) -> tuple[dict[int, Observed], dict[int, Exception]]:
        return self._each(self._host.step, actions)

    def _oracle(self, slots: list[int]) -> tuple[dict[int, str], dict[int, Exception]]:
        return self._each(lambda slot, _: self._host.oracle(slot), dict.fromkeys(slots))

    def _each(
        self, command: Callable[[int, Any], Any], arguments: Mapping[int, Any]
    ) -> tuple[dict[int, Any], dict[int, Exception]]:
        if self._closed:
            raise ConfigError("this runner is closed; make a new one")
        results: dict[int, Any] = {}
        errors: dict[int, Exception] = {}
        for slot, argument in arguments.items():
            try:
                results[slot] = command(slot, argument)
            except Exception as error:
                errors[slot] = error
        return results, errors

"""Environments in workers that may be lost: what every pool does, whatever its workers are.

Each worker hosts several slots. The pool remembers the request and the actions of every running episode. When
a worker dies, or says nothing for longer than the time limit, it is replaced and its running episodes are
re-run from what the pool remembers, each step checked against what it showed before; then the commands that
had no answer yet are sent again. An answer that has arrived is never asked for twice.
"""

from __future__ import annotations

import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agent_gym.play.host import Observed, shorten
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner
from agent_gym.play.worker import Answer, Command
from agent_gym.support.errors import ConfigError, WorkerError

_CLOSE_SECONDS = 5.0


class EnvWorker(ABC):
    """One worker, or the place of one that is yet to be started.

    Attributes:
        ready: It has made an environment.
        early_deaths: Times in a row that it ended before it was ready.
    """

    def __init__(self) -> None:
        self.ready = False
        self.early_deaths = 0

    @property
    @abstractmethod
    def started(self) -> bool:
        """Whether it was started and not ended since."""

    @abstractmethod
    def start(self) -> None:
        """Start it; its first answer says that it is ready."""

    @abstractmethod
    def kill(self, patience_s: float = 0.0) -> str:
        """End it, at once or when it has not ended by itself after some seconds; return how it ended."""

    @abstractmethod
    def send(self, command: Command, arguments: Mapping[int, Any], *, singly: bool = False) -> None:
        """Send a command; a worker that is gone shows when its answer is awaited.

        Args:
            command: The command.
            arguments: Slot -> argument.
            singly: Have each answer sent at once, so that a worker that dies leaves no finished answer behind.
        """

    @abstractmethod
    def receive(self) -> list[Answer] | None:
        """Return the answers that have arrived, or None when the worker is gone and none is left."""

    @abstractmethod
    def finish(self, deadline: float) -> None:
        """Wait, until a time of the monotonic clock, for a worker that was told to close."""


W = TypeVar("W", bound=EnvWorker)


@dataclass
class _Record:
    """A running episode, as far as it was seen."""

    request: EpisodeRequest
    task_id: str
    digests: list[str]
    actions: list[str] = field(default_factory=list)


@dataclass
class _Job(Generic[W]):
    """What one worker has to do in the current call."""

    worker: W
    slots: range
    pending: dict[int, Any]
    """Arguments of the commands without an answer."""
    rerunning: set[int] = field(default_factory=set)
    """Slots whose episodes are being re-run."""
    deadline: float = 0.0


class WorkerPool(EnvRunner, Generic[W]):
    """Environments in workers; losses and hangs are repaired.

    Args:
        env_id: Id of the environment, for messages.
        workers: The workers, none of them started, at most one a slot.
        n_slots: Number of slots.
        timeout_s: Seconds without an answer after which a worker counts as hanging. It bounds one reset, one
            step or one oracle action, not a whole call.
        max_restarts: Times that a worker is replaced over one and the same command of a slot; 0 gives up at
            the first loss.
        start_timeout_s: Seconds that a new worker may take to make its first environment.

    Raises:
        ConfigError: An argument is out of range.
    """

    def __init__(
        self,
        env_id: str,
        workers: Sequence[W],
        n_slots: int,
        *,
        timeout_s: float = 60.0,
        max_restarts: int = 3,
        start_timeout_s: float = 300.0,
    ) -> None:
        super().__init__(n_slots)
        if not workers or timeout_s <= 0 or start_timeout_s <= 0 or max_restarts < 0:
            raise ConfigError(
                "n_workers must be at least 1, time limits above 0 and max_restarts at least 0, got "
                f"n_workers={len(workers)}, timeout_s={timeout_s}, start_timeout_s={start_timeout_s}, "
                f"max_restarts={max_restarts}"
            )
        self._timeout_s, self._start_timeout_s = timeout_s, start_timeout_s
        self._max_restarts = max_restarts
        self._env_id = env_id
        self._workers = list(workers)
        self._records: dict[int, _Record] = {}
        self._losses: dict[int, int] = {}
        self._closed = False
        self._finalizer = weakref.finalize(self, _kill_all, self._workers)
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Close the environments and end the workers."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            if worker.started:
                worker.send(Command.CLOSE, {})
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in self._workers:
            # A worker that is still starting has nothing to close.
            if worker.started and worker.ready:
                worker.finish(deadline)
        self._finalizer()

    @abstractmethod
    def _wait(self, workers: Sequence[W], seconds: float) -> None:
        """Wait until one of the workers has something to say or ends, at most for some seconds."""

    def _reset(self, requests: Mapping[int, EpisodeRequest]) -> tuple[dict[int, Any], dict[int, Exception]]:
        for slot in requests:
            self._records.pop(slot, None)
        return self._run(Command.RESET, requests)

    def _step(self, actions: Mapping[int, str]) -> tuple[dict[int, Any], dict[int, Exception]]:
        return self._run(Command.STEP, actions)

    def _oracle(self, slots: list[int]) -> tuple[dict[int, Any], dict[int, Exception]]:
        return self._run(Command.ORACLE, dict.fromkeys(slots))

    def _run(self, command: Command, arguments: Mapping[int, Any]) -> tuple[dict[int, Any], dict[int, Exception]]:
        """Carry out a command on slots; returns values and failures by slot, in the order given."""
        if self._closed:
            raise ConfigError("this runner is closed; make a new one")
        values: dict[int, Any] = {}
        errors: dict[int, Exception] = {}
        jobs: list[_Job[W]] = []
        for index, worker in enumerate(self._workers):
            slots = range(index, self.n_slots, len(self._workers))
            pending = {slot: argument for slot, argument in arguments.items() if slot in slots}
            if pending:
                jobs.append(_Job(worker, slots, pending))
        open_jobs = jobs
        try:
            for job in jobs:
                if job.worker.ready:
                    self._send(job, command)
                else:
                    self._begin(job)
            while open_jobs := [job for job in jobs if job.pending or job.rerunning]:
                self._await(open_jobs)
                for job in open_jobs:
                    self._advance(job, command, values, errors)
        finally:
            # An exception (Ctrl-C above all) leaves answers under way: those workers are replaced later.
            for job in open_jobs:
                job.worker.kill()
        order = {slot: place for place, slot in enumerate(arguments)}
        return (
            {slot: values[slot] for slot in arguments if slot in values},
            {slot: errors[slot] for slot in sorted(errors, key=lambda s: order.get(s, len(order) + s))},
        )

    def _await(self, jobs: list[_Job[W]]) -> None:
        """Wait until a worker has something to say, ends or runs out of time."""
        earliest = min(job.deadline for job in jobs)
        self._wait([job.worker for job in jobs], max(0.0, earliest - time.monotonic()))

    def _advance(
        self, job: _Job[W], command: Command, values: dict[int, Any], errors: dict[int, Exception]
    ) -> None:
        """Take in what a worker has said, and replace it when it is lost."""
        answers = job.worker.receive()
        if answers is None:
            self._lost(job, command, errors, hanging=False)
            return
        for answer in answers:
            job.deadline = time.monotonic() + self._timeout_s
            if answer.slot is None:
                if answer.error is not None:
                    raise answer.error
                job.worker.ready, job.worker.early_deaths = True, 0
                self._restore(job, command)
            elif answer.slot in job.rerunning:
                self._restored(job, command, answer, errors)
            else:
                self._take(job, command, answer, values, errors)
        if not answers and time.monotonic() >= job.deadline:
            self._lost(job, command, errors, hanging=True)

    def _send(self, job: _Job[W], command: Command) -> None:
        job.deadline = time.monotonic() + self._timeout_s
        # After a loss it matters which slot the worker was busy with.
        singly = any(slot in self._losses for slot in job.pending)
        job.worker.send(command, job.pending, singly=singly)

    def _begin(self, job: _Job[W]) -> None:
        """Start the job's worker unless it is starting already."""
        if not job.worker.started:
            job.worker.start()
        job.deadline = time.monotonic() + self._start_timeout_s

    def _restore(self, job: _Job[W], command: Command) -> None:
        """Have a new worker re-run the episodes of its slots, then carry on."""
        lost = {slot: self._records[slot] for slot in job.slots if slot in self._records}
        job.rerunning = set(lost)
        if lost:
            arguments = {slot: (r.request, r.actions, r.digests) for slot, r in lost.items()}
            job.worker.send(Command.RERUN, arguments)
        elif job.pending:
            self._send(job, command)

    def _restored(self, job: _Job[W], command: Command, answer: Answer, errors: dict[int, Exception]) -> None:
        """Take in an answer about an episode that is being re-run."""
        slot = answer.slot
        assert slot is not None
        if not answer.done:
            return
        job.rerunning.discard(slot)
        if answer.error is not None:
            errors[slot] = answer.error
            job.pending.pop(slot, None)
            self._records.pop(slot, None)
        if not job.rerunning and job.pending:
            self._send(job, command)

    def _take(
        self,
        job: _Job[W],
        command: Command,
        answer: Answer,
        values: dict[int, Any],
        errors: dict[int, Exception],
    ) -> None:
        """Take in the answer to a command, and remember what a re-run needs."""
        slot = answer.slot
        assert slot is not None
        argument = job.pending.pop(slot)
        self._losses.pop(slot, None)
        if answer.error is not None:
            errors[slot] = answer.error
            if isinstance(answer.error, WorkerError):
                self._records.pop(slot, None)
            return
        values[slot] = answer.value
        if command is Command.ORACLE:
            return
        observed: Observed = answer.value
        if command is Command.RESET:
            self._records[slot] = _Record(argument, observed.info["task_id"], [observed.digest()])
        elif observed.over:
            self._records.pop(slot, None)
        elif slot in self._records:
            self._records[slot].actions.append(argument)
            self._records[slot].digests.append(observed.digest())

    def _lost(self, job: _Job[W], command: Command, errors: dict[int, Exception], *, hanging: bool) -> None:
        """Replace a worker that died or hangs; give up on the slot it was busy with after too many times."""
        was_ready = job.worker.ready
        ended = job.worker.kill(0.0 if hanging else 1.0)
        job.rerunning.clear()
        how = (
            f"gave no answer for {self._timeout_s if was_ready else self._start_timeout_s:g} s"
            if hanging
            else f"died ({ended})"
        )
        if not was_ready:
            job.worker.early_deaths += 1
            if job.worker.early_deaths > self._max_restarts:
                raise WorkerError(
                    f"a worker for {self._env_id} {how} before it had made an environment, "
                    f"{job.worker.early_deaths} times in a row; make one in this process to see why"
                )
        elif job.pending:
            slot = next(iter(job.pending))
            self._losses[slot] = self._losses.get(slot, 0) + 1
            if self._losses[slot] > self._max_restarts:
                errors[slot] = self._given_up(slot, command, job.pending.pop(slot), how)
        if job.pending:
            self._begin(job)

    def _given_up(self, slot: int, command: Command, argument: Any, how: str) -> WorkerError:
        losses = self._losses.pop(slot)
        record = self._records.pop(slot, None)
        request = self._requests[slot]
        task_id = record.task_id if record else request.task_id
        doing = f"action {shorten(argument)}" if command is Command.STEP else command.value
        turn = len(record.actions) + 1 if record else 0
        return WorkerError(
            f"the worker of slot {slot} {how} at {doing}, {losses} times in a row ({self._env_id}, task "
            f"{task_id!r}, seed {request.seed}, turn {turn}); this episode is given up. Raise timeout_s if "
            "the environment is only slow, else replay the episode in one process to find the fault"
        )


def _kill_all(workers: Sequence[EnvWorker]) -> None:
    for worker in workers:
        worker.kill()

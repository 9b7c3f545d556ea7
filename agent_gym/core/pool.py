"""Environments in worker processes that may die.

Each worker hosts several slots. The pool remembers the start and the actions of every running episode. When
a worker dies, or says nothing for longer than the time limit, it is replaced and its running episodes are
re-run from what the pool remembers, each step checked against what it showed before; then the commands that
had no answer yet are sent again. An answer that has arrived is never asked for twice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing import connection as mp_connection
from multiprocessing import get_context, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from agent_gym.core.batch import EnvRunner
from agent_gym.core.errors import ConfigError, WorkerError
from agent_gym.core.slots import EpisodeStart, IdMaker, Observed, shorten
from agent_gym.core.worker import Answer, Command, Connection, serve

_CLOSE_SECONDS = 5.0


@dataclass
class _Record:
    """A running episode, as far as it was seen."""

    start: EpisodeStart
    task_id: str
    digests: list[str]
    actions: list[str] = field(default_factory=list)


class _Worker:
    """One worker process, or the place of one that is yet to be started."""

    def __init__(self, make: IdMaker) -> None:
        self._make = make
        self.process: SpawnProcess | None = None
        self.connection: Connection | None = None
        self.ready = False
        self.early_deaths = 0
        """Times in a row that the process ended before it was ready."""

    def start(self) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self._make), daemon=True)
        self.connection, self.ready = ours, False
        with _interrupts_held():
            self.process.start()
        theirs.close()  # the end of the worker must be the end of the pipe

    def kill(self, patience_s: float = 0.0) -> int | None:
        """End the process, at once or when it has not ended by itself after some seconds; return its code."""
        process, connection = self.process, self.connection
        self.process = self.connection = None
        self.ready = False
        if connection is not None:
            connection.close()
        if process is None:
            return None
        process.join(patience_s)
        code = process.exitcode
        process.kill()
        process.join()
        process.close()
        return code

    def send(self, command: Command, arguments: Mapping[int, Any]) -> None:
        """Send a command; a worker that is gone shows when its answer is awaited."""
        assert self.connection is not None
        with contextlib.suppress(OSError):
            self.connection.send((command, arguments))

    def receive(self) -> list[Answer] | None:
        """Return the answers that have arrived, or None when the worker is gone and none is left."""
        assert self.connection is not None
        answers: list[Answer] = []
        try:
            while self.connection.poll():
                answers.append(self.connection.recv())
        except (EOFError, OSError):
            return answers or None
        gone = not answers and self.process is not None and not self.process.is_alive()
        return None if gone else answers


@dataclass
class _Job:
    """What one worker has to do in the current call."""

    worker: _Worker
    slots: range
    pending: dict[int, Any]
    """Arguments of the commands without an answer."""
    rerunning: set[int] = field(default_factory=set)
    """Slots whose episodes are being re-run."""
    deadline: float = 0.0


class ProcessPoolRunner(EnvRunner):
    """Environments in worker processes; crashes and hangs are repaired.

    Processes are spawned, so a script that uses the pool needs the `if __name__ == "__main__":` guard. They
    end with `close`, with the runner, and with the process that started them, however it ends.

    Args:
        env_id: Registered id, or `module:id` to import the module that registers it.
        env_kwargs: Arguments of the environment; must be picklable.
        n_slots: Number of slots.
        n_workers: Number of processes, at most one a slot; one a core when None.
        timeout_s: Seconds without an answer after which a worker counts as hanging. It bounds one reset, one
            step or one oracle action, not a whole call.
        max_restarts: Times that a worker is replaced over one and the same command of a slot; 0 gives up at
            the first loss.
        start_timeout_s: Seconds that a new process may take to make its first environment.

    Raises:
        ConfigError: An argument is out of range.
    """

    def __init__(
        self,
        env_id: str,
        env_kwargs: Mapping[str, Any] | None,
        n_slots: int,
        n_workers: int | None = None,
        timeout_s: float = 60.0,
        max_restarts: int = 3,
        *,
        start_timeout_s: float = 300.0,
    ) -> None:
        super().__init__(n_slots)
        workers = min(n_slots, os.cpu_count() or 1) if n_workers is None else min(n_workers, n_slots)
        if workers < 1 or timeout_s <= 0 or start_timeout_s <= 0 or max_restarts < 0:
            raise ConfigError(
                "n_workers must be at least 1, time limits above 0 and max_restarts at least 0, got "
                f"n_workers={n_workers}, timeout_s={timeout_s}, start_timeout_s={start_timeout_s}, "
                f"max_restarts={max_restarts}"
            )
        self._timeout_s, self._start_timeout_s = timeout_s, start_timeout_s
        self._max_restarts = max_restarts
        self._env_id = env_id
        make = IdMaker(env_id, dict(env_kwargs or {}))
        self._workers = [_Worker(make) for _ in range(workers)]
        self._records: dict[int, _Record] = {}
        self._losses: dict[int, int] = {}
        self._closed = False
        self._finalizer = weakref.finalize(self, _kill_all, self._workers)
        for worker in self._workers:
            worker.start()

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        return [w.process.pid for w in self._workers if w.process is not None and w.process.pid is not None]

    def close(self) -> None:
        """Close the environments and end the workers."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            if worker.connection is not None:
                worker.send(Command.CLOSE, {})
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in self._workers:
            # A worker that is still starting has nothing to close.
            if worker.process is not None and worker.ready:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        self._finalizer()

    def _reset(self, starts: Mapping[int, EpisodeStart]) -> tuple[dict[int, Any], dict[int, Exception]]:
        for slot in starts:
            self._records.pop(slot, None)
        return self._run(Command.RESET, starts)

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
        jobs: list[_Job] = []
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

    def _await(self, jobs: list[_Job]) -> None:
        """Wait until a worker has something to say, ends or runs out of time."""
        waitables: list[Any] = []
        for job in jobs:
            assert job.worker.connection is not None
            assert job.worker.process is not None
            waitables += [job.worker.connection, job.worker.process.sentinel]
        earliest = min(job.deadline for job in jobs)
        mp_connection.wait(waitables, max(0.0, earliest - time.monotonic()))

    def _advance(self, job: _Job, command: Command, values: dict[int, Any], errors: dict[int, Exception]) -> None:
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

    def _send(self, job: _Job, command: Command) -> None:
        job.deadline = time.monotonic() + self._timeout_s
        job.worker.send(command, job.pending)

    def _begin(self, job: _Job) -> None:
        """Start the job's worker unless it is starting already."""
        if job.worker.process is None:
            job.worker.start()
        job.deadline = time.monotonic() + self._start_timeout_s

    def _restore(self, job: _Job, command: Command) -> None:
        """Have a new worker re-run the episodes of its slots, then carry on."""
        lost = {slot: self._records[slot] for slot in job.slots if slot in self._records}
        job.rerunning = set(lost)
        if lost:
            arguments = {slot: (r.start, r.actions, r.digests) for slot, r in lost.items()}
            job.worker.send(Command.RERUN, arguments)
        elif job.pending:
            self._send(job, command)

    def _restored(self, job: _Job, command: Command, answer: Answer, errors: dict[int, Exception]) -> None:
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
        job: _Job,
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

    def _lost(self, job: _Job, command: Command, errors: dict[int, Exception], *, hanging: bool) -> None:
        """Replace a worker that died or hangs; give up on the slot it was busy with after too many times."""
        was_ready = job.worker.ready
        code = job.worker.kill(0.0 if hanging else 1.0)
        job.rerunning.clear()
        how = (
            f"gave no answer for {self._timeout_s if was_ready else self._start_timeout_s:g} s"
            if hanging
            else f"died (exit code {code})"
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
        start = self._starts[slot]
        task_id = record.task_id if record else start.task_id
        doing = f"action {shorten(argument)}" if command is Command.STEP else command.value
        turn = len(record.actions) + 1 if record else 0
        return WorkerError(
            f"the worker of slot {slot} {how} at {doing}, {losses} times in a row ({self._env_id}, task "
            f"{task_id!r}, seed {start.seed}, turn {turn}); this episode is given up. Raise timeout_s if "
            "the environment is only slow, else replay the episode in one process to find the fault"
        )


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start processes that a Ctrl-C at the terminal does not reach; this process gets it a moment later."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it lifts the mask when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.kill()

"""Environments in worker processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection as mp_connection
from multiprocessing import get_context, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from agent_gym.play.host import IdMaker
from agent_gym.play.recovery import EnvWorker, WorkerPool
from agent_gym.play.worker import Answer, Command, Connection, serve


class PipeWorker(EnvWorker):
    """A worker process behind a pipe.

    Args:
        make: Makes one environment.
    """

    def __init__(self, make: IdMaker) -> None:
        super().__init__()
        self._make = make
        self.process: SpawnProcess | None = None
        self.connection: Connection | None = None

    @property
    def started(self) -> bool:
        """Whether there is a process."""
        return self.process is not None

    def start(self) -> None:
        """Spawn the process."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self._make), daemon=True)
        self.connection, self.ready = ours, False
        with _interrupts_held():
            self.process.start()
        theirs.close()  # the end of the worker must be the end of the pipe

    def kill(self, patience_s: float = 0.0) -> str:
        """End the process; see `EnvWorker.kill`."""
        process, connection = self.process, self.connection
        self.process = self.connection = None
        self.ready = False
        if connection is not None:
            connection.close()
        if process is None:
            return "not started"
        process.join(patience_s)
        code = process.exitcode
        process.kill()
        process.join()
        process.close()
        return f"exit code {code}"

    def send(self, command: Command, arguments: Mapping[int, Any], *, singly: bool = False) -> None:
        """Send a command; answers are always sent singly."""
        assert self.connection is not None
        with contextlib.suppress(OSError):
            self.connection.send((command, arguments))

    def receive(self) -> list[Answer] | None:
        """Return the answers that have arrived; see `EnvWorker.receive`."""
        assert self.connection is not None
        answers: list[Answer] = []
        try:
            while self.connection.poll():
                answers.append(self.connection.recv())
        except (EOFError, OSError):
            return answers or None
        gone = not answers and self.process is not None and not self.process.is_alive()
        return None if gone else answers

    def finish(self, deadline: float) -> None:
        """Wait for the process to end."""
        assert self.process is not None
        self.process.join(max(0.0, deadline - time.monotonic()))


class ProcessPoolRunner(WorkerPool[PipeWorker]):
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
        *,
        timeout_s: float = 60.0,
        max_restarts: int = 3,
        start_timeout_s: float = 300.0,
    ) -> None:
        count = min(n_slots, (os.cpu_count() or 1) if n_workers is None else n_workers)
        make = IdMaker(env_id, dict(env_kwargs or {}))
        workers = [PipeWorker(make) for _ in range(count)]
        super().__init__(
            env_id,
            workers,
            n_slots,
            timeout_s=timeout_s,
            max_restarts=max_restarts,
            start_timeout_s=start_timeout_s,
        )

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        return [w.process.pid for w in self._workers if w.process is not None and w.process.pid is not None]

    def _wait(self, workers: Sequence[PipeWorker], seconds: float) -> None:
        waitables: list[Any] = []
        for worker in workers:
            assert worker.connection is not None
            assert worker.process is not None
            waitables += [worker.connection, worker.process.sentinel]
        mp_connection.wait(waitables, seconds)


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

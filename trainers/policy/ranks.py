"""Several processes as one trainer: who does what, and what they tell each other.

`torchrun` starts the processes; `open_ranks` joins them. Every rank samples its share of the episodes; the
episodes are then exchanged, so that every rank computes the same filter, statistics, advantages and minibatches,
and takes the forward and backward passes of its share of each minibatch (`trainers.policy.sharding` shards the
model).
What is decided from a file, a clock or a signal is decided by one rank and told to the others.

A rank never waits inside a rollout: collectives stand between the phases of an iteration only, so an episode that
ends early or a prompt that does not fit keeps nobody waiting. A rank that fails says so in the store that the
launcher keeps, and stays until the others have read it, because launchers end all when one ends; the others end
with its message.

Left out: pipeline, tensor and context parallelism, and restarts without a checkpoint.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from agent_gym.support.errors import AgentGymError, ConfigError

T = TypeVar("T")

EXIT_FAILED = 2
TIMEOUT = timedelta(hours=1)
"""Longest wait of one rank for another between two phases: a phase may take that much longer on a slow rank."""
_POLL_SECONDS = 0.5
_FAILURE = "failure"
_READ = "read"
_READ_SECONDS = 10.0
_SHOWN = 2_000


class RankError(AgentGymError, RuntimeError):
    """Another process of the run failed; the message names its rank and what it said."""


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, seen from one of them. The default is a single process.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes.
        local_rank: Number of this process on its machine: the device it uses.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    _store: Any = field(default=None, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def device(self, name: str) -> str:
        """Return the device of this process for one named in the settings: each takes a CUDA device of its own.

        Raises:
            ConfigError: A numbered device, which all processes would share.
        """
        if self.size == 1 or name in ("cpu", "mps"):
            return name
        if ":" in name:
            raise ConfigError(
                f"device={name!r} is one device for {self.size} processes; use device='cuda', one a process"
            )
        import torch

        return f"cuda:{self.local_rank}" if torch.cuda.is_available() else name

    def share(self, count: int) -> range:
        """Return the indices, of `count` in a row, that this process works on; shares differ by one at most."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def gather(self, value: T) -> list[T]:
        """Return every process's value, in the order of ranks. All processes have to call it."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def gather_to_main(self, value: T) -> list[T]:
        """Return every process's value on the main process, an empty list elsewhere. All have to call it."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] | None = [None] * self.size if self.is_main else None
        dist.gather_object(value, values)
        return values or []

    def from_main(self, value: T) -> T:
        """Return the main process's value. All processes have to call it."""
        if self.size == 1:
            return value
        import torch.distributed as dist

        box = [value if self.is_main else None]
        dist.broadcast_object_list(box, src=0)
        return box[0]  # type: ignore[return-value]

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process. All have to call it."""
        return any(self.gather(flag))

    def main_first(self, name: str, work: Callable[[], object]) -> None:
        """Let the main process do something that may take hours, while the others wait without a time limit.

        Args:
            name: Unique over the run.
            work: Done by the main process only.
        """
        if self.is_main:
            work()
            if self._store is not None:
                self._store.set(f"done/{name}", "1")
            return
        while not self._store.check([f"done/{name}"]):
            time.sleep(_POLL_SECONDS)


def launched_size() -> int:
    """Return how many processes a launcher such as torchrun has started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def open_ranks() -> Iterator[Ranks]:
    """Join the processes that a launcher has started; without one, the world is this process.

    Messages travel by gloo; tensors on CUDA devices by nccl. A program that has left the world and has no more to
    do ends with `leave`.

    Raises:
        RankError: On leaving, when another process failed.
    """
    size = launched_size()
    if size == 1:
        yield Ranks()
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(iter(rendezvous("env://", timeout=TIMEOUT)))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl"
    notices = PrefixStore("agent-gym", store.clone())
    dist.init_process_group(backend, store=PrefixStore("group", store), rank=rank, world_size=size, timeout=TIMEOUT)
    ranks = Ranks(rank, size, local_rank, notices)
    done = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(PrefixStore("agent-gym", store.clone()), rank, done), daemon=True
    )
    watcher.start()
    try:
        yield ranks
        ranks.gather(None)  # whoever keeps the store must not leave first
    except BaseException as error:
        done.set()
        told = _failure(notices, rank)
        if told is not None:
            notices.set(f"{_READ}/{rank}", "1")
            raise RankError(told) from error
        _tell(notices, rank, size, error)
        raise
    done.set()
    watcher.join()
    dist.destroy_process_group()


def leave() -> NoReturn:
    """End this process, whose work has succeeded, without taking the interpreter apart; exit handlers run.

    A sharded model keeps its process group, and with it gloo's threads, beyond `destroy_process_group`. Such a
    thread that is late to drop the tensors of the last message asks for the interpreter while that is ending, and
    the whole process aborts (pytorch/pytorch#179291): a launcher would take a finished run for a failed one.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _tell(store: Any, rank: int, size: int, error: BaseException) -> None:
    """Leave word of a failure, of several the first stays, and wait a little for the others to read it."""
    text = f"rank {rank} failed: {type(error).__name__}: {error}"[:_SHOWN]
    readers = [f"{_READ}/{other}" for other in range(size) if other != rank]
    deadline = time.monotonic() + _READ_SECONDS
    try:
        store.compare_set(_FAILURE, "", f"{rank}|{text}")
        while not store.check(readers) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS / 5)
    except Exception:  # whoever kept the store is gone: nobody is left to tell
        return


def _failure(store: Any, rank: int) -> str | None:
    """Return what another rank that failed said."""
    try:
        if not store.check([_FAILURE]):
            return None
        teller, _, text = store.get(_FAILURE).decode("utf-8", "replace").partition("|")
    except Exception:  # whoever kept the store is gone
        return None
    return None if int(teller) == rank else text


def _watch(store: Any, rank: int, done: threading.Event) -> None:
    """End this process when another one has failed: it may be waiting for an answer that never comes."""
    while not done.wait(_POLL_SECONDS):
        text = _failure(store, rank)
        if text is not None:
            os.write(2, f"error: {text}\n".encode())
            store.set(f"{_READ}/{rank}", "1")
            os._exit(EXIT_FAILED)

"""The worker process of the pool: a `SlotHost` behind a pipe."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from multiprocessing import connection as mp_connection
from multiprocessing import parent_process
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym

from agent_gym.play.host import SlotHost
from agent_gym.support.errors import WorkerError

Connection: TypeAlias = "mp_connection.Connection[Any, Any]"


class Command(StrEnum):
    """What the pool asks of a worker; sent as `(command, {slot: argument})`."""

    RESET = "reset"
    """Argument: an `EpisodeRequest`."""
    STEP = "step"
    """Argument: an action."""
    ORACLE = "oracle"
    """Argument: None."""
    RERUN = "rerun"
    """Argument: `(request, actions, digests)` of a running episode that another worker lost."""
    CLOSE = "close"
    """No slots: close the environments and exit."""


class Answer(NamedTuple):
    """One message of a worker.

    Attributes:
        slot: The slot it is about; None for the first message, which says that the worker is ready.
        value: What the command returned.
        error: The exception it raised instead.
        done: False for a sign of progress, after which more answers for the slot follow.
    """

    slot: int | None
    value: Any = None
    error: Exception | None = None
    done: bool = True


def serve(connection: Connection, make: Callable[[], gym.Env[Any, Any]]) -> None:
    """Answer commands until told to close or until the pool's process is gone.

    Args:
        connection: Pipe to the pool.
        make: Makes one environment.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's business; it closes the workers
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held while the process started
    threading.Thread(target=_die_with_parent, daemon=True).start()
    host = SlotHost(make)
    try:
        host.prepare()
    except Exception as error:
        connection.send_bytes(dump(Answer(None, error=error)))
        return
    try:
        connection.send_bytes(dump(Answer(None)))
        while True:
            command, arguments = connection.recv()
            if command is Command.CLOSE:
                break
            for answer in answers(host, command, arguments):
                connection.send_bytes(dump(answer))
    except (EOFError, OSError):
        pass  # the pool is gone
    finally:
        host.close()


def answers(host: SlotHost, command: Command, arguments: Mapping[int, Any]) -> Iterator[Answer]:
    """Carry out a command; yields an answer a slot, after signs of progress of a re-run."""
    for slot, argument in arguments.items():
        answer = Answer(slot)
        try:
            if command is Command.RERUN:
                for _ in host.rerun(slot, *argument):
                    yield Answer(slot, done=False)
            elif command is Command.RESET:
                answer = Answer(slot, host.reset(slot, argument))
            elif command is Command.STEP:
                answer = Answer(slot, host.step(slot, argument))
            else:
                answer = Answer(slot, host.oracle(slot))
        except Exception as error:
            answer = Answer(slot, error=error)
        yield answer


def dump(answer: Answer) -> bytes:
    """Pickle an answer; what does not pickle is replaced by an error that says so."""
    try:
        if answer.error is not None:
            pickle.loads(pickle.dumps(answer.error))
        return pickle.dumps(answer)
    except Exception as error:
        if answer.error is not None:
            told = f"{type(answer.error).__name__}: {answer.error}"
        else:
            told = f"slot {answer.slot}: what the environment returned cannot be pickled ({error})"
        return pickle.dumps(Answer(answer.slot, error=WorkerError(told)))


def _die_with_parent() -> None:
    """End this process when its parent is gone, even while an environment hangs."""
    parent = parent_process()
    if parent is not None:
        mp_connection.wait([parent.sentinel])
        os._exit(1)

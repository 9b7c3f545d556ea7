"""Locks on files: one process at a time writes into a run folder, a file of results, an index.

The lock is the operating system's (`flock`), so it ends with the process that holds it, however that process ends.
Where the system or the file system has no such locks, nothing is locked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_gym.support.errors import AgentGymError

_held: set[int] = set()


class BusyError(AgentGymError):
    """Another process holds the lock."""


@contextmanager
def exclusive(
    path: str | Path, what: str, remedy: str = "wait for it, or stop it and try again", *, wait: bool = False
) -> Iterator[None]:
    """Hold the lock of a file, which is made for the purpose and removed afterwards.

    A process that dies leaves the file, not the lock. Forked children do not hold the lock on.

    Args:
        path: The file; its folder must exist.
        what: What the holder does, as in "runs/a is being trained"; begins the error's message.
        remedy: What to do about it; ends the error's message.
        wait: Wait until the lock is free instead of raising.

    Raises:
        BusyError: The lock is held, by another process or elsewhere in this one.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = Path(path)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        _held.add(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            holder = os.read(file, 20).decode("ascii", "replace").strip()
            _close(file)
            raise BusyError(f"{what} by process {holder or '(unknown)'}; {remedy}") from error
        except OSError:  # a file system without locks
            break
        if _is_at(file, path):
            break
        _close(file)  # whoever held the lock has removed the file meanwhile
    try:
        os.truncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        if file in _held:  # not so in a forked child
            if _is_at(file, path):
                with suppress(OSError):
                    path.unlink()
            _close(file)


def _is_at(file: int, path: Path) -> bool:
    """Tell whether an open file is the one at the path."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), there)


def _close(file: int) -> None:
    _held.discard(file)
    os.close(file)


def _let_go() -> None:
    """Close a forked child's copies, with which the lock would outlive its holder."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)

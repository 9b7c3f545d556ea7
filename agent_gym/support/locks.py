"""Locks on files: one process at a time writes into a run folder, a file of results, an index.

The lock is the operating system's, by the library `filelock` (`flock`, or `LockFileEx` on Windows), so it ends
with the process that holds it, however that process ends. Where the file system has no such locks, nothing is
locked.

Only the locking of an open file is the library's. Its `FileLock` does not say who holds a lock, which a person who
is refused has to know; it leaves the file behind; and not every version of it keeps forked children from holding
the lock on. So the file, the number in it, its removal and forks are looked after here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from agent_gym.support.errors import AgentGymError

_WINDOWS = os.name == "nt"
_NUMBER_AT = 1 if _WINDOWS else 0
"""Where in the file the holder's number is: Windows lets nobody else read the first byte, which is locked."""
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
    path = Path(path)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        _held.add(file)
        try:
            locked = lock_descriptor(file, blocking=wait)
        except OSError:  # a file system without locks
            break
        except BaseException:  # Ctrl-C while waiting
            _close(file)
            raise
        if not locked:
            holder = _number_in(file)
            _close(file)
            raise BusyError(f"{what} by process {holder or '(unknown)'}; {remedy}")
        if _is_at(file, path):
            break
        _close(file)  # whoever held the lock has removed the file meanwhile
    try:
        os.truncate(file, 0)
        os.lseek(file, _NUMBER_AT, os.SEEK_SET)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        if file in _held:  # not so in a forked child
            _remove(file, path)


def _number_in(file: int) -> str:
    """Return the process number that a holder has written."""
    os.lseek(file, _NUMBER_AT, os.SEEK_SET)
    return os.read(file, 20).decode("ascii", "replace").strip()


def _remove(file: int, path: Path) -> None:
    """Close a file and remove it.

    Elsewhere than on Windows it is removed while it is locked, for afterwards it may be another holder's. Windows
    removes no file that is open, the next holder's included.
    """
    if _WINDOWS:
        _close(file)
    if _WINDOWS or _is_at(file, path):
        with suppress(OSError):
            path.unlink()
    if not _WINDOWS:
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

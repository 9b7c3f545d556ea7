"""Locks: one holder at a time, none after the holder's end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent_gym.support import locks
from agent_gym.support.locks import BusyError, exclusive
from tests.cli.command import ROOT, environment

pytest.importorskip("fcntl")

HOLDER = """
import sys, time
from agent_gym.support.locks import exclusive
import os
with exclusive(sys.argv[1], "it is used"):
    if os.fork() == 0:
        print(os.getpid(), flush=True)  # by now it has let go of the lock
    time.sleep(60)
"""


def test_a_second_holder_is_refused_by_the_number_of_the_first_and_the_file_goes(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive(lock, "x is used", "stop it"):
        expected = rf"^x is used by process {os.getpid()}; stop it$"
        with pytest.raises(BusyError, match=expected), exclusive(lock, "x is used", "stop it"):
            raise AssertionError
        assert lock.read_text() == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == []
    with exclusive(lock, "x is used"):
        pass


def test_the_lock_is_released_by_an_error_inside(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), exclusive(tmp_path / "lock", "x"):
        raise ValueError("mine")
    with exclusive(tmp_path / "lock", "x"):
        pass


def test_a_killed_holder_leaves_no_lock_even_where_its_forked_child_lives_on(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(BusyError, match=f"process {holder.pid};"), exclusive(lock, "it is used"):
            raise AssertionError
        holder.kill()
        holder.wait()
        os.kill(child, 0)  # still there
        with exclusive(lock, "it is used"):
            assert lock.read_text() == f"{os.getpid()}\n"
    finally:
        os.kill(child, signal.SIGKILL)
        holder.kill()
        holder.stdout.close()


def test_who_waits_gets_the_lock_when_the_holder_ends(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    ender = threading.Timer(0.3, holder.kill)
    try:
        ender.start()
        with exclusive(lock, "it is used", wait=True):
            assert holder.wait() == -signal.SIGKILL
            assert lock.read_text() == f"{os.getpid()}\n"
        assert list(tmp_path.iterdir()) == []
    finally:
        ender.cancel()
        os.kill(child, signal.SIGKILL)
        holder.kill()
        holder.stdout.close()


def test_where_a_file_system_has_no_locks_nothing_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, **options: bool) -> bool:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(locks, "lock_descriptor", refuse)
    with exclusive(tmp_path / "lock", "x"), exclusive(tmp_path / "lock", "x"):
        pass
    assert list(tmp_path.iterdir()) == []

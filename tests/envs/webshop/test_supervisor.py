"""What ends a supervised command ends it, at whatever moment it is asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

# Asks the supervisor to end once more at the moment in which it begins to clean up.
SUPERVISOR = """
import os, signal, sys
from agent_gym.envs.webshop.browser import supervisor
real = signal.signal
def late(number, handler):
    if (number, handler) == (signal.SIGTERM, signal.SIG_IGN):
        os.kill(os.getpid(), signal.SIGTERM)
    return real(number, handler)
signal.signal = late
sys.exit(supervisor.main(sys.argv[1:]))
"""
# Says its number, and starts a process of its own in its group, as a driver starts a browser.
COMMAND = "import os, subprocess; print(os.getpid(), flush=True); subprocess.run(['sleep', '600'])"


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("closes", [False, True])
def test_a_signal_amid_the_clean_up_leaves_nothing_behind(closes: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, sys.executable, "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    group = int(process.stdout.readline())
    if closes:
        process.stdin.close()
    else:
        process.terminate()
    assert process.wait(60) == 0
    deadline = time.monotonic() + 30
    while alive(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = alive(group)
    if left:
        os.killpg(group, signal.SIGKILL)
    assert not left

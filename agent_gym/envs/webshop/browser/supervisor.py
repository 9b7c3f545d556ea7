"""Runs a command until it ends or until the process that asked for it is gone, then ends all that it started.

Started as a script of its own, with a pipe as standard input: when the pipe closes, for whatever reason, the
command's whole process group is ended. A killed worker therefore leaves no browser behind. The command gets a
temporary folder of its own, which is removed with it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

_GRACE_SECONDS = 2.0


def main(command: list[str]) -> int:
    """Run the command; returns its exit status, or 0 when it was ended."""
    folder = tempfile.mkdtemp(prefix="agent-gym-browser-")
    environment = {
        **os.environ,
        "TMPDIR": folder,
        "HOME": folder,
        "XDG_CONFIG_HOME": folder,
        "XDG_CACHE_HOME": folder,
    }
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the asking process decides
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment, cwd=folder
        )
        try:
            _wait(process)
        finally:
            _end_group(process)
        return process.returncode or 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended or standard input is closed."""
    while process.poll() is None:
        ready, _, _ = select.select([sys.stdin], [], [], 1.0)
        if ready and not os.read(sys.stdin.fileno(), 1024):
            return


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, _GRACE_SECONDS), (signal.SIGKILL, _GRACE_SECONDS)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except (ProcessLookupError, PermissionError):
                break
            time.sleep(0.02)
    process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

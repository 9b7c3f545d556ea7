"""Runs a command until it ends or until the process that asked for it is gone, then ends all that it started.

Started as a script of its own, with a pipe as standard input: when the pipe closes, for whatever reason, or at
SIGTERM, the command's whole process group is ended. A killed worker therefore leaves no browser behind. The
command gets a temporary folder of its own, which is removed with it.
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

_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_LONGEST_FOLDER = 30


def main(command: list[str]) -> int:
    """Run the command; returns 0, whichever side ended it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the asking process decides
    told, tell = os.pipe()
    # A handler that raised could do so amid the clean-up, and leave the browser behind.
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(tell, b"."))
    folder = tempfile.mkdtemp(prefix="agent-gym-browser-", dir=_short_folder())
    variables = ("TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
    environment = {**os.environ, **dict.fromkeys(variables, folder)}
    process: subprocess.Popen[bytes] | None = None
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment, cwd=folder
        )
        while process.poll() is None:
            ready, _, _ = select.select([sys.stdin, told], [], [], _LOOK_SECONDS)
            if told in ready or (sys.stdin in ready and not os.read(sys.stdin.fileno(), 1024)):
                break
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if process is not None:
            _end_group(process)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _short_folder() -> str | None:
    """Return a folder for temporary files whose name leaves room for the browser's sockets (108 bytes with all)."""
    if len(tempfile.gettempdir()) > _LONGEST_FOLDER and os.access("/tmp", os.W_OK):
        return "/tmp"
    return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process group at once: nothing in the temporary folder is worth a farewell."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            break
        process.poll()
        time.sleep(0.01)
    process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

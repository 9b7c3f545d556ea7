"""Runs the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """Return the variables of a terminal that is 200 columns wide and has no colours."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def agent_gym(
    *arguments: str, cwd: Path | None = None, stdin: str = "", timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run `agent-gym` with arguments; output is captured, standard input is what is given."""
    return subprocess.run(
        [sys.executable, "-m", "agent_gym.cli.main", *arguments],
        cwd=cwd,
        env=environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def assert_one_line_error(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check for exit status 2 and one line on standard error that holds the parts."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr

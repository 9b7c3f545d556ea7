"""Measurements in processes of their own: a job on standard input, the figures on the last line of the output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_gym.support.errors import AgentGymError


def run_child(command: Sequence[str], job: Mapping[str, Any]) -> dict[str, Any]:
    """Run one side and return the object that it prints.

    Args:
        command: Program and arguments.
        job: What is measured, given as JSON on standard input.

    Raises:
        AgentGymError: It printed none.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, input=json.dumps(job), capture_output=True, text=True, check=False, env=environment
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise AgentGymError(f"the measurement by {Path(command[0]).name} failed: {last}") from None
    return found


def run_module(name: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a module of this package with this interpreter; see `run_child`."""
    return run_child(module_command(name), job)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this interpreter, whatever the working directory holds."""
    return [sys.executable, "-P", "-m", name, *arguments]

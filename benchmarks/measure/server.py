"""Servers of this package in processes of their own, as measurements search and visit them."""

from __future__ import annotations

import os
import subprocess

from agent_gym.support.errors import AgentGymError
from benchmarks.measure.child import module_command

_STOP_SECONDS = 60.0


def start_server(*arguments: str, ready: str, one_thread: bool = False) -> tuple[subprocess.Popen[str], str]:
    """Start `agent-gym serve` and wait until it listens.

    Args:
        arguments: What follows `serve`.
        ready: What the line holds in which the server says that it listens.
        one_thread: Keep numeric libraries from taking several cores.

    Returns:
        The process, and that line.

    Raises:
        AgentGymError: The server did not start.
    """
    command = module_command("agent_gym", "serve", *arguments)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} if one_thread else None
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    line = server.stdout.readline()
    if ready not in line:
        stop_server(server)
        raise AgentGymError(
            f"the server did not start; its exit status is {server.returncode}; "
            f"try: agent-gym serve {' '.join(arguments)}"
        )
    return server, line


def stop_server(server: subprocess.Popen[str]) -> None:
    """End a server and wait for it."""
    server.terminate()
    server.wait(_STOP_SECONDS)
    if server.stdout is not None:
        server.stdout.close()

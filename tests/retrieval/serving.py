"""Retrieval servers in processes and threads of their own."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from agent_gym.retrieval import Retriever
from agent_gym.retrieval.service.server import ServerConfig, create_app
from tests.cli.command import environment


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def served(retriever: Retriever, config: ServerConfig | None = None) -> Iterator[str]:
    """Serve a retriever from a thread; yields the address."""
    port = free_port()
    app = create_app(retriever, config)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


def start_server(index: Path, port: int) -> subprocess.Popen[str]:
    """Start `agent-gym serve retriever` and wait until it listens."""
    command = [sys.executable, "-m", "agent_gym.cli.main", "serve", "retriever", str(index), "--port", str(port)]
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "passages at http://127.0.0.1" in line, line + (process.stdout.read() if process.poll() else "")
    return process


def stop_server(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    """Send a signal and return the exit status."""
    process.send_signal(number)
    status = process.wait(30)
    assert process.stdout is not None
    process.stdout.close()
    return status

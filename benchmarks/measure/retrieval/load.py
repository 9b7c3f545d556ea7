"""Puts a retrieval server under the load of many clients, optionally killing and restarting it on the way."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent_gym.retrieval import Hit, RetrieverError, open_index
from agent_gym.retrieval.service.remote import RemoteConfig, RemoteRetriever
from agent_gym.retrieval.service.wire import Dialect
from benchmarks.measure.server import start_server, stop_server

K = 3


@dataclass(slots=True)
class LoadFigures:
    """What the clients saw.

    Attributes:
        clients: Threads that searched at the same time.
        seconds: How long they did.
        requests: Searches that were answered.
        wrong: Answers that differ from a local search.
        errors: Searches that raised, by the error's name.
        first_error: What the first of them said.
        p50_ms: Median time of an answered search.
        p95_ms: 95th percentile.
        longest_ms: Longest time, which contains a restart.
        restarts: How often the server was killed and started again.
    """

    clients: int
    seconds: float
    requests: int = 0
    wrong: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    first_error: str = ""
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    longest_ms: float = 0.0
    restarts: int = 0


def measure_load(
    index: Path, queries: list[str], *, clients: int = 200, seconds: float = 60.0, restart: bool = False
) -> LoadFigures:
    """Search a server of an index from many threads, half of them in either dialect.

    Args:
        index: Index folder to serve.
        queries: Queries to send in turn.
        clients: Concurrent requests.
        seconds: Duration.
        restart: Kill the server in the middle (SIGKILL) and start it again; clients then retry, else they do not.

    Raises:
        AgentGymError: The server did not start.
    """
    local = open_index(index)
    expected = [_ids(hits) for hits in local.search_many(queries, K)]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = _start(index, port)
    retries = 8 if restart else 0
    remotes = [
        RemoteRetriever(f"http://127.0.0.1:{port}", RemoteConfig(dialect=dialect, retries=retries))
        for dialect in Dialect
    ]
    figures = LoadFigures(clients, seconds)
    lock, errors, taken = threading.Lock(), Counter[str](), list[float]()
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        remote, turn = remotes[number % len(remotes)], number
        while time.monotonic() < end:
            begin = time.perf_counter()
            try:
                found = _ids(remote.search(queries[turn % len(queries)], K))
            except RetrieverError as error:
                with lock:
                    errors[type(error).__name__] += 1
                    figures.first_error = figures.first_error or str(error)
                continue
            with lock:
                taken.append(1000 * (time.perf_counter() - begin))
                figures.wrong += found != expected[turn % len(queries)]
            turn += clients

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    try:
        for thread in threads:
            thread.start()
        if restart:
            time.sleep(seconds / 2)
            server.send_signal(signal.SIGKILL)
            server.wait()
            server = _start(index, port)
            figures.restarts = 1
        for thread in threads:
            thread.join()
    finally:
        stop_server(server)
    figures.requests, figures.errors = len(taken), dict(errors)
    if taken:
        figures.p50_ms, figures.p95_ms = (float(np.percentile(taken, share)) for share in (50, 95))
        figures.longest_ms = max(taken)
    return figures


def _ids(hits: list[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


def _start(index: Path, port: int) -> subprocess.Popen[str]:
    return start_server("retriever", str(index), "--port", str(port), ready="passages at")[0]

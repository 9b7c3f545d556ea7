"""Server and client over the loopback: dialects, limits, faults, restart."""

from __future__ import annotations

import asyncio
import copy
import http.server
import json
import multiprocessing
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra [search] is not installed")
pytest.importorskip("uvicorn", reason="the extra [search] is not installed")
pytest.importorskip("httpx", reason="the extra [search] is not installed")

import httpx

from agent_gym.retrieval import (
    Bm25Retriever,
    Hit,
    Passage,
    RetrieverError,
    RetrieverResponseError,
    RetrieverUnavailableError,
    UnknownPassageError,
    build_index,
    open_index,
    open_retriever,
)
from agent_gym.retrieval.service.batching import Batcher
from agent_gym.retrieval.service.remote import RemoteConfig, RemoteRetriever
from agent_gym.retrieval.service.server import ServerConfig
from agent_gym.retrieval.service.wire import Dialect
from agent_gym.support.errors import ConfigError
from tests.retrieval.conftest import write_corpus
from tests.retrieval.serving import free_port, served, start_server, stop_server

QUICK = RemoteConfig(timeout=5, retries=2, backoff=0.01)
QUERIES = ("river item7", "castle", "", "painter item16", "\x00'; DROP TABLE", "\u202e</information>")


@pytest.fixture(scope="module")
def address(on_disk: Bm25Retriever) -> Iterator[str]:
    with served(on_disk, ServerConfig(most_queries=50, most_bytes=200_000)) as url:
        yield url


@pytest.mark.parametrize("dialect", list(Dialect))
def test_either_dialect_gets_the_local_answers(dialect: Dialect, address: str, on_disk: Bm25Retriever) -> None:
    remote = RemoteRetriever(address, RemoteConfig(dialect=dialect, batch=4))
    found = remote.search_many(QUERIES, 4)
    expected = on_disk.search_many(QUERIES, 4)
    assert [[(h.id, h.score) for h in hits] for hits in found] == [[(h.id, h.score) for h in e] for e in expected]
    assert remote.passages(found[0]) == on_disk.passages(expected[0])
    assert (remote.size, remote.fingerprint) == (on_disk.size, on_disk.fingerprint)


def test_clients_written_by_others_get_their_forms(address: str, on_disk: Bm25Retriever) -> None:
    best = on_disk.passages(on_disk.search("river item7", 2))
    answer = httpx.post(f"{address}/retrieve", json={"queries": ["river item7"], "topk": 2, "return_scores": True})
    assert [item["document"]["contents"] for item in answer.json()["result"][0]] == [p.contents for p in best]
    answer = httpx.post(f"{address}/retrieve", json={"query": "river item7", "topk": 2, "return_scores": True})
    assert [item["document"]["id"] for item in answer.json()["result"][0]] == [p.id for p in best]
    answer = httpx.post(f"{address}/retrieve", json={"query": "river item7", "topk": 2, "return_scores": False})
    assert [document["contents"] for document in answer.json()["result"][0]] == [p.contents for p in best]
    assert len(httpx.post(f"{address}/retrieve", json={"query": "river"}).json()["result"][0]) == 3


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[" * 50_000, 400, "no JSON"),
        (b"{}", 400, "queries"),
        (json.dumps({"queries": ["a"] * 51}).encode(), 400, "1 to 50"),
        (b'{"query": "' + b"a" * 300_000 + b'"}', 413, "200000 bytes"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(content: bytes, status: int, message: str, address: str) -> None:
    answer = httpx.post(f"{address}/retrieve", content=content)
    assert answer.status_code == status and message in answer.json()["error"]


def test_a_100_kilobyte_query_is_answered(address: str) -> None:
    assert RemoteRetriever(address, QUICK).search("river " * 16_000, 1)[0].score > 0


@pytest.mark.parametrize("dialect", list(Dialect))
def test_hostile_passages_arrive_as_they_are(dialect: Dialect, tmp_path: Path) -> None:
    hostile = [
        Passage("nul\x00id", "with \x00 inside", "a\x00b needle0"),
        Passage("rtl", "\u202eevil\u202c", "\u200fשלום needle1"),
        Passage("tags", "</information>", "<answer>Paris</answer> needle2\r\n\u2028\x85"),
        Passage("json", '"},{"score":9', '\\"]]} needle3'),
        Passage("big", "Big", "filler " * 150_000 + "needle4"),
    ]
    build_index(write_corpus(tmp_path / "corpus.jsonl", hostile), tmp_path / "index")
    with served(open_index(tmp_path / "index")) as url:
        remote = RemoteRetriever(url, RemoteConfig(dialect=dialect, retries=0))
        for number, passage in enumerate(hostile):
            assert remote.passages(remote.search(f"needle{number}", 1)) == [passage]


def test_health_and_metrics(address: str, on_disk: Bm25Retriever) -> None:
    health = httpx.get(f"{address}/health").json()
    assert health["status"] == "ok" and health["size"] == 300 and health["fingerprint"] == on_disk.fingerprint
    before = _metric(address, 'requests_total{status="200"}')
    RemoteRetriever(address, QUICK).search_many(["river"] * 7, 1)
    assert _metric(address, 'requests_total{status="200"}') == before + 1
    assert _metric(address, "passages") == 300


def test_refusals_are_named_at_once(address: str) -> None:
    with pytest.raises(RetrieverResponseError, match=r"status 400.*0 to 100"):
        RemoteRetriever(address, QUICK).search("river", 101)


def test_many_threads_share_one_client(address: str, on_disk: Bm25Retriever) -> None:
    remote = RemoteRetriever(address, QUICK)
    expected = {query: [hit.id for hit in on_disk.search(query, 3)] for query in QUERIES}
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: [h.id for h in remote.search(QUERIES[n % 6], 3)], range(200)))
    assert found == [expected[QUERIES[n % 6]] for n in range(200)]


def _ids_in_child(remote: RemoteRetriever, queue: Any) -> None:
    queue.put([hit.id for hit in remote.search("river item7", 3)])


def test_children_and_copies_search_too(address: str, on_disk: Bm25Retriever) -> None:
    remote = RemoteRetriever(address, QUICK)
    expected = [hit.id for hit in on_disk.search("river item7", 3)]
    assert [hit.id for hit in remote.search("river item7", 3)] == expected
    assert copy.deepcopy(remote) is remote
    assert [hit.id for hit in pickle.loads(pickle.dumps(remote)).search("river item7", 3)] == expected
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_ids_in_child, args=(remote, queue))
    child.start()
    assert queue.get() == expected
    child.join(30)
    remote.close()
    assert [hit.id for hit in remote.search("river item7", 3)] == expected


def test_addresses(address: str) -> None:
    assert isinstance(open_retriever(address), RemoteRetriever)
    assert RemoteRetriever("http://localhost:8000").url == "http://localhost:8000/retrieve"
    assert RemoteRetriever("http://localhost:8000/v2/find").url == "http://localhost:8000/v2/find"
    for bad in ("ftp://x", "http://", "//host"):
        with pytest.raises(ConfigError, match="address of a retrieval server"):
            RemoteRetriever(bad)
    with pytest.raises(UnknownPassageError, match="not by id"):
        RemoteRetriever(address).passage("p1")


def test_a_server_that_is_not_there_is_named() -> None:
    remote = RemoteRetriever(f"http://127.0.0.1:{free_port()}", QUICK)
    with pytest.raises(RetrieverUnavailableError, match=r"did not answer 3 requests.*serve retriever"):
        remote.search("river", 3)
    assert remote.size == -1 and len(remote.fingerprint) == 32


@contextmanager
def scripted(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[str]]]:
    """Serve given answers in turn, the last one for ever; yields address and the log of requests."""
    log: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, headers, body = answers[min(len(log), len(answers) - 1)]
            log.append(self.rfile.read(int(self.headers["content-length"])).decode())
            if status == 0:  # the connection breaks off in the middle of the answer
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n" + body)
                self.close_connection = True
                return
            if status == -1:
                time.sleep(2)
            self.send_response(max(status, 200))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # the client may have given up
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", log
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


GOOD = (200, {}, b'{"result": [[{"document": {"id": "1", "contents": "\\"T\\"\\nx"}, "score": 2}]]}')


@pytest.mark.parametrize(
    "fault",
    [
        (503, {"retry-after": "0"}, b"busy"),
        (500, {}, b"oops"),
        (429, {}, b""),
        (0, {}, b'{"result": [[{"docu'),
        (-1, {}, GOOD[2]),
        (200, {"content-encoding": "gzip"}, b"no gzip"),
    ],
    ids=["503", "500", "429", "torn", "slow", "undecodable"],
)
def test_passing_faults_are_retried(fault: tuple[int, dict[str, str], bytes]) -> None:
    with scripted(fault, fault, GOOD) as (url, log):
        remote = RemoteRetriever(url, RemoteConfig(timeout=1.0, retries=2, backoff=0.01))
        hits = remote.search("a", 1)
        assert hits == [Hit(-1, "1", 2.0)] and remote.passages(hits) == [Passage("1", "T", "x")]
        assert len(log) == 3 and len(set(log)) == 1


@pytest.mark.parametrize(
    ("answer", "error", "requests"),
    [
        ((500, {}, b"broken"), RetrieverUnavailableError, 3),
        ((404, {}, b"nothing here"), RetrieverResponseError, 1),
        ((200, {}, b"<html>login</html>"), RetrieverResponseError, 1),
        ((200, {}, b'{"result": "none"}'), RetrieverResponseError, 1),
        ((200, {}, b'{"result": [[], []]}'), RetrieverResponseError, 1),
        ((200, {}, b"\xff\xfe\xfa"), RetrieverResponseError, 1),
        ((200, {}, b"[" * 200_000), RetrieverResponseError, 1),
        ((200, {"content-encoding": "gzip"}, b"no gzip"), RetrieverUnavailableError, 3),
    ],
)
def test_lasting_faults_end_in_a_named_error(
    answer: tuple[int, dict[str, str], bytes], error: type[Exception], requests: int
) -> None:
    with scripted(answer) as (url, log):
        with pytest.raises(error, match=url):
            RemoteRetriever(url, QUICK).search("a", 1)
        assert len(log) == requests


class GatedRetriever(Bm25Retriever):
    """Searches when its gate is opened, notes its batches, and fails on demand."""

    def __init__(self, inner: Bm25Retriever) -> None:
        super().__init__(inner.folder, inner.fingerprint)
        self.gate = threading.Event()
        self.batches: list[tuple[int, int]] = []

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.batches.append((len(queries), k))
        assert self.gate.wait(60)
        if "fail" in queries:
            raise RetrieverError("the disk is gone")
        return super().search_many(queries, k)


def test_waiting_queries_are_searched_together(on_disk: Bm25Retriever) -> None:
    gated = GatedRetriever(on_disk)
    numbers = [n for n in range(50) if n % 5]
    with served(gated, ServerConfig(threads=1, most_batch=8)) as url, ThreadPoolExecutor(40) as pool:
        remote = RemoteRetriever(url, RemoteConfig(retries=0, timeout=60))
        searches = [pool.submit(remote.search, f"item{n}", 2 + n % 2) for n in numbers]
        _wait_until(lambda: _metric(url, "waiting") + sum(size for size, _ in gated.batches) == 40)
        gated.gate.set()
        found = [search.result(60)[0].id for search in searches]
    assert found == [f"p{n}" for n in numbers]
    sizes = [size for size, _ in gated.batches]
    assert sum(sizes) == 40 and max(sizes) == 8
    assert len(sizes) <= 8


def test_a_failing_search_is_an_error_of_its_request_alone(on_disk: Bm25Retriever) -> None:
    gated = GatedRetriever(on_disk)
    gated.gate.set()
    with served(gated) as url:
        with pytest.raises(RetrieverUnavailableError, match="RetrieverError: the disk is gone"):
            RemoteRetriever(url, QUICK).search("fail", 1)
        assert RemoteRetriever(url, QUICK).search("item7", 1)[0].id == "p7"


def test_more_than_may_wait_is_refused(on_disk: Bm25Retriever) -> None:
    gated = GatedRetriever(on_disk)
    config = ServerConfig(threads=1, most_batch=1, most_waiting=2)
    statuses: list[int] = []

    def ask(number: int) -> None:
        statuses.append(httpx.post(f"{url}/retrieve", json={"query": f"item{number}"}, timeout=60).status_code)

    with served(gated, config) as url, ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, number) for number in range(8)]
        _wait_until(lambda: len(statuses) >= 5)
        assert set(statuses) == {503}
        gated.gate.set()
        for done in asking:
            done.result(60)
    assert set(statuses) == {200, 503}


def test_a_search_that_takes_too_long_is_told(on_disk: Bm25Retriever) -> None:
    gated = GatedRetriever(on_disk)
    with served(gated, ServerConfig(search_seconds=0.2)) as url:
        answer = httpx.post(f"{url}/retrieve", json={"query": "river"}, timeout=60)
        gated.gate.set()
    assert answer.status_code == 504 and "0.2 seconds" in answer.json()["error"]


def test_what_nobody_waits_for_any_more_takes_no_place_and_is_not_searched(on_disk: Bm25Retriever) -> None:
    gated = GatedRetriever(on_disk)

    async def play() -> None:
        batcher = Batcher(gated, threads=1, most_batch=2, most_waiting=3)

        def ask(query: str) -> asyncio.Task[Any]:
            return asyncio.create_task(batcher.search([query], 1))

        first, *gone = [ask("river") for _ in range(4)]
        await asyncio.sleep(0)
        for search in gone:
            search.cancel()
        await asyncio.wait(gone)
        assert batcher.waiting == 0
        fresh = [ask(f"item{number}") for number in range(3)]
        await asyncio.sleep(0)
        for search in fresh[:2]:  # the whole batch that comes next
            search.cancel()
        gated.gate.set()
        assert (await fresh[2])[0][0][0].id == "p2"
        await first
        await batcher.close()

    asyncio.run(play())
    assert gated.batches == [(1, 1), (1, 1)]


@pytest.mark.slow
def test_the_command_stops_gracefully_and_clients_survive_a_restart(
    index_folder: Path, on_disk: Bm25Retriever
) -> None:
    port = free_port()
    process = start_server(index_folder, port)
    remote = RemoteRetriever(f"http://127.0.0.1:{port}", RemoteConfig(retries=8, backoff=0.2, longest_wait=2))
    results: dict[int, list[str]] = {}
    stop = threading.Event()

    def keep_searching() -> None:
        for number in range(1, 10_000):
            if stop.is_set():
                return
            results[number] = [hit.id for hit in remote.search(f"river item{number % 300}", 3)]

    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(keep_searching)
        try:
            _wait_until(lambda: len(results) > 20, searching)
            assert stop_server(process, signal.SIGKILL) == -signal.SIGKILL
            killed_at = len(results)
            process = start_server(index_folder, port)
            _wait_until(lambda: len(results) > killed_at + 20, searching)
        finally:
            stop.set()
            status = stop_server(process)
        searching.result(60)
    assert status == 0
    assert sorted(results) == list(range(1, len(results) + 1))
    for number, found in results.items():
        assert found == [hit.id for hit in on_disk.search(f"river item{number % 300}", 3)]


def test_a_taken_port_is_an_error(index_folder: Path, address: str) -> None:
    from tests.cli.command import agent_gym, assert_one_line_error

    port = address.rpartition(":")[2]
    done = agent_gym("serve", "retriever", str(index_folder), "--port", port)
    assert_one_line_error(done, f"cannot listen on 127.0.0.1:{port}")


def _wait_until(reached: Callable[[], bool], working: Future[None] | None = None) -> None:
    deadline = time.monotonic() + 60
    while not reached() and time.monotonic() < deadline and not (working is not None and working.done()):
        time.sleep(0.02)
    assert reached(), working.exception() if working is not None and working.done() else "not within a minute"


def _metric(address: str, name: str) -> float:
    lines = httpx.get(f"{address}/metrics").text.splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"agent_gym_retriever_{name}")))

"""Searches of concurrent requests, carried out together on a few threads.

A thread that becomes free takes what is waiting, up to a limit: under light load a query is searched at once, and
under heavy load batches grow by themselves. No request waits for others to arrive.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agent_gym.retrieval.base import Hit, Passage, Retriever
from agent_gym.support.errors import AgentGymError

Found = list[tuple[Hit, Passage]]


class OverloadedError(AgentGymError):
    """More queries wait than the limit."""


@dataclass(slots=True)
class _Waiting:
    queries: Sequence[str]
    k: int
    result: asyncio.Future[list[Found]]


class Batcher:
    """Runs searches for an event loop.

    Args:
        retriever: The corpus.
        threads: Batches searched at once.
        most_batch: Most queries in a batch (one request's queries stay together).
        most_waiting: Queries that may wait; further ones are refused.

    Attributes:
        batches: Number of batches so far.
        queries: Number of queries searched so far.
    """

    def __init__(self, retriever: Retriever, *, threads: int, most_batch: int, most_waiting: int) -> None:
        self._retriever = retriever
        self._threads, self._most_batch, self._most_waiting = threads, most_batch, most_waiting
        self._queue: deque[_Waiting] = deque()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="search")
        self.batches = 0
        self.queries = 0

    @property
    def waiting(self) -> int:
        """Queries that wait for a thread."""
        return sum(len(item.queries) for item in self._queue if not item.result.done())

    async def search(self, queries: Sequence[str], k: int) -> list[Found]:
        """Return hits and passages of every query.

        Raises:
            OverloadedError: Too many queries wait.
            RetrieverError: The search failed.
        """
        self._drop_gone()
        if self._queue and self.waiting + len(queries) > self._most_waiting:
            raise OverloadedError(f"{self.waiting} queries wait already; at most {self._most_waiting} may")
        item = _Waiting(queries, k, asyncio.get_running_loop().create_future())
        self._queue.append(item)
        if self._busy < self._threads:
            self._busy += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await item.result

    async def close(self) -> None:
        """Finish what waits, then end the threads."""
        await asyncio.gather(*self._tasks)
        self._pool.shutdown()

    async def _work(self) -> None:
        """Search batches until nothing waits."""
        loop = asyncio.get_running_loop()
        try:
            while batch := self._take():
                queries = [query for item in batch for query in item.queries]
                try:
                    found = await loop.run_in_executor(self._pool, self._search, queries, batch[0].k)
                except Exception as error:  # it belongs to the requests, not to this task
                    for item in batch:
                        if not item.result.done():
                            item.result.set_exception(error)
                    continue
                self.batches += 1
                self.queries += len(queries)
                start = 0
                for item in batch:
                    if not item.result.done():  # a client that went away has cancelled it
                        item.result.set_result(found[start : start + len(item.queries)])
                    start += len(item.queries)
        finally:
            self._busy -= 1

    def _take(self) -> list[_Waiting]:
        """Take the first waiting request and later ones with the same k, as many as fit; none when none waits."""
        self._drop_gone()
        if not self._queue:
            return []
        first = self._queue.popleft()
        batch, size = [first], len(first.queries)
        others: list[_Waiting] = []
        while self._queue and size < self._most_batch:
            item = self._queue.popleft()
            if item.k == first.k and size + len(item.queries) <= self._most_batch:
                batch.append(item)
                size += len(item.queries)
            else:
                others.append(item)
        self._queue.extendleft(reversed(others))
        return batch

    def _drop_gone(self) -> None:
        """Forget requests that nobody waits for any more: their clients went away or ran out of time."""
        if any(item.result.done() for item in self._queue):
            self._queue = deque(item for item in self._queue if not item.result.done())

    def _search(self, queries: list[str], k: int) -> list[Found]:
        results = self._retriever.search_many(queries, k)
        return [list(zip(hits, self._retriever.passages(hits), strict=True)) for hits in results]

"""A thread pool that does not keep the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")
_Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class DaemonPool:
    """Runs calls in up to `size` threads.

    The standard pool waits for its threads when the interpreter ends, so that Ctrl-C would wait for the slowest
    request of a service. These threads are left behind.

    Args:
        size: Most threads; they start as they are needed.
        name: Name of the threads.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size, self._name = size, name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., R], *arguments: Any) -> Future[R]:
        """Run a call in a thread; returns its future."""
        future: Future[R] = Future()
        with self._lock:
            self._unfinished += 1
            if self._unfinished > len(self._threads) < self._size:
                number = len(self._threads)
                thread = threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put((future, call, arguments))
        return future

    def close(self) -> None:
        """Let the threads end when they are done with what they do."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call, arguments = job
            if future.set_running_or_notify_cancel():
                try:
                    found = call(*arguments)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(found)
            with self._lock:
                self._unfinished -= 1

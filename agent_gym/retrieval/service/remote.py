"""Search by a Search-R1-compatible server.

A server that is down, slow or restarting is asked again, a bounded number of times; after that the search raises.
Nothing that went wrong ever looks like a document.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

from agent_gym.retrieval.base import (
    Hit,
    Passage,
    Retriever,
    RetrieverResponseError,
    RetrieverUnavailableError,
    UnknownPassageError,
    check_k,
)
from agent_gym.retrieval.service.wire import Dialect, read_answer, write_request
from agent_gym.support.checks import check_number, check_whole
from agent_gym.support.errors import ConfigError

ROUTE = "/retrieve"
HEALTH = "/health"
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RemoteConfig:
    """How a server is asked.

    Attributes:
        dialect: Form of requests.
        timeout: Seconds a connection or an answer may take.
        retries: How often a failed request is sent again.
        backoff: Seconds before the first repetition; doubled each time.
        longest_wait: Most seconds between two repetitions, also when the server names a time.
        batch: Most queries in one request.
    """

    dialect: Dialect = Dialect.SEARCH_R1
    timeout: float = 30.0
    retries: int = 6
    backoff: float = 0.25
    longest_wait: float = 8.0
    batch: int = 128

    def __post_init__(self) -> None:
        check_number("timeout", self.timeout, 0.0, math.inf, open_low=True)
        check_whole("retries", self.retries, 0)
        check_number("backoff", self.backoff, 0.0, math.inf)
        check_number("longest_wait", self.longest_wait, 0.0, math.inf)
        check_whole("batch", self.batch, 1)


class RemoteRetriever(Retriever):
    """The corpus of a server.

    Hits carry their passages; their document numbers are unknown. Connections are kept open and shared by the
    threads of a process; a forked child makes its own.

    Args:
        url: `http://host:port`, or with a path when the route is not `/retrieve`.
        config: Time-outs, retries and the dialect.

    Raises:
        ConfigError: The address is malformed, or the extra [search] is not installed.
    """

    def __init__(self, url: str, config: RemoteConfig | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"expected the address of a retrieval server such as http://localhost:8000, got {url!r}"
            )
        self.url = url if parts.path.strip("/") else urlunsplit(parts._replace(path=ROUTE))
        self._health = urlunsplit(parts._replace(path=HEALTH, query=""))
        self.config = config or RemoteConfig()
        self._about: dict[str, Any] | None = None
        self._connect()

    @property
    def size(self) -> int:
        """Number of passages, -1 when the server does not tell."""
        size = self._describe().get("size")
        return size if isinstance(size, int) else -1

    @property
    def fingerprint(self) -> str:
        """The server's fingerprint, or a digest of its address when it tells none."""
        found = self._describe().get("fingerprint")
        return found if isinstance(found, str) else sha256(self.url.encode()).hexdigest()[:32]

    def passage(self, id: str) -> Passage:
        """Raise: a server gives passages with the hits of a search only, see `Retriever.passages`."""
        raise UnknownPassageError(
            f"the server {self.url} gives passages with search results only, not by id ({id!r})"
        )

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best hits of every query; see `Retriever.search_many`.

        Raises:
            RetrieverUnavailableError: The server did not answer in spite of retries.
            RetrieverResponseError: It refused, or its answer has another form.
        """
        check_k(k)
        size = self.config.batch if self.config.dialect is Dialect.SEARCH_R1 else 1
        results: list[list[Hit]] = []
        for start in range(0, len(queries), size):
            batch = queries[start : start + size]
            body = self._post(write_request(batch, k, self.config.dialect))
            try:
                found = read_answer(body, len(batch))
            except RetrieverResponseError as error:
                raise RetrieverResponseError(f"{self.url}: {error}") from None
            results += [hits[:k] for hits in found]
        return results

    def close(self) -> None:
        """Close the connections; the next search opens new ones."""
        self._client.close()
        self._process = -1

    def _connect(self) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConfigError(
                f"a retrieval server needs the extra [search]: pip install 'agent-gym[search]' ({error})"
            ) from error
        self._httpx = httpx
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.Client(timeout=self.config.timeout, limits=limits)
        self._process = os.getpid()

    def _post(self, body: dict[str, Any]) -> Any:
        if os.getpid() != self._process:
            self._connect()
        reason, wait = "", 0.0
        for attempt in range(self.config.retries + 1):
            if attempt:
                time.sleep(min(max(wait, self.config.backoff * 2 ** (attempt - 1)), self.config.longest_wait))
            try:
                answer = self._client.post(self.url, json=body)
            except self._httpx.RequestError as error:  # a body that cannot be decompressed is one, too
                reason, wait = f"{type(error).__name__}: {error}", 0.0
                continue
            if answer.status_code in _AGAIN:
                reason, wait = f"status {answer.status_code}: {answer.text[:200]}", _retry_after(answer)
                continue
            return self._read(answer)
        self._give_up(reason)

    def _read(self, answer: Any) -> Any:
        if answer.status_code != 200:
            raise RetrieverResponseError(
                f"{self.url} refused the search with status {answer.status_code}: {answer.text[:200]}"
            )
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            raise RetrieverResponseError(f"{self.url} did not answer with JSON: {answer.text[:80]!r}") from error

    def _give_up(self, reason: str) -> NoReturn:
        raise RetrieverUnavailableError(
            f"the retrieval server {self.url} did not answer {self.config.retries + 1} requests; the last one: "
            f"{reason}. Is it running (agent-gym serve retriever)?"
        )

    def _describe(self) -> dict[str, Any]:
        """Ask the health route, once; servers without one tell nothing."""
        if self._about is None:
            if os.getpid() != self._process:
                self._connect()
            try:
                answer = self._client.get(self._health)
                found = answer.json() if answer.status_code == 200 else {}
            except (self._httpx.RequestError, ValueError, RecursionError):
                return {}
            self._about = found if isinstance(found, dict) else {}
        return self._about

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteRetriever, (self.url, self.config)


def _retry_after(answer: Any) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else 0.0

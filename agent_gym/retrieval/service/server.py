"""A retrieval service over HTTP for trainers' clients, in both dialects of `agent_gym.retrieval.service.wire`.

Routes: `POST /retrieve`, `GET /health`, `GET /metrics`. Errors have a body `{"error": ...}` that says what to do:
400 for a request that cannot be understood, 413 for one that is too long, 503 (with Retry-After) when too many
queries wait, 504 when a search takes too long, 500 when it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from agent_gym._version import __version__
from agent_gym.retrieval.base import Retriever
from agent_gym.retrieval.service.batching import Batcher, OverloadedError
from agent_gym.retrieval.service.metrics import Metrics
from agent_gym.retrieval.service.remote import HEALTH, ROUTE
from agent_gym.retrieval.service.wire import read_request, write_answer
from agent_gym.support.errors import AgentGymError, ConfigError


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Limits of the service.

    Attributes:
        default_k: Hits per query when the request names no number.
        most_k: Most hits per query.
        most_queries: Most queries in a request.
        most_bytes: Longest request body.
        most_waiting: Queries that may wait for a thread.
        most_batch: Queries searched together.
        threads: Searches at once.
        search_seconds: Longest time for a request.
        stop_seconds: How long requests in progress may take when the server stops.
    """

    default_k: int = 3
    most_k: int = 100
    most_queries: int = 1024
    most_bytes: int = 8 << 20
    most_waiting: int = 4096
    most_batch: int = 64
    threads: int = 2
    search_seconds: float = 30.0
    stop_seconds: int = 30

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")
        if self.default_k > self.most_k:
            raise ConfigError(f"default_k {self.default_k} is above most_k {self.most_k}")


class _TooLongError(AgentGymError):
    """A body beyond the limit."""


def create_app(retriever: Retriever, config: ServerConfig | None = None) -> Any:
    """Return the ASGI application (Starlette) that serves a corpus.

    Raises:
        ConfigError: The extra [search] is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise ConfigError(
            f"the server needs the extra [search]: pip install 'agent-gym[search]' ({error})"
        ) from error

    limits = config or ServerConfig()
    metrics = Metrics()
    batcher = Batcher(
        retriever, threads=limits.threads, most_batch=limits.most_batch, most_waiting=limits.most_waiting
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await batcher.close()

    def answer(body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        return Response(content, status, headers, "application/json")

    async def retrieve(request: Request) -> Response:
        started = time.perf_counter()
        try:
            asked = read_request(
                await _read_json(request, limits.most_bytes),
                limits.default_k,
                limits.most_k,
                limits.most_queries,
            )
            found = await asyncio.wait_for(batcher.search(asked.queries, asked.k), limits.search_seconds)
            reply = answer(write_answer(found, asked.scores))
        except OverloadedError as error:
            reply = answer({"error": str(error)}, 503, {"Retry-After": "1"})
        except _TooLongError as error:
            reply = answer({"error": str(error)}, 413)
        except ConfigError as error:
            reply = answer({"error": str(error)}, 400)
        except TimeoutError:
            reply = answer({"error": f"the search took more than {limits.search_seconds} seconds"}, 504)
        except Exception as error:  # one failed search must not look like a dead server
            reply = answer({"error": f"{type(error).__name__}: {error}"}, 500)
        metrics.add(reply.status_code, time.perf_counter() - started)
        return reply

    async def health(request: Request) -> Response:
        about = {"size": retriever.size, "fingerprint": retriever.fingerprint, "version": __version__}
        return answer({"status": "ok", **about})

    async def show_metrics(request: Request) -> Response:
        counts = {"queries": batcher.queries, "batches": batcher.batches, "waiting": batcher.waiting}
        return PlainTextResponse(metrics.write(**counts, passages=retriever.size))

    return Starlette(
        routes=[
            Route(ROUTE, retrieve, methods=["POST"]),
            Route(HEALTH, health),
            Route("/metrics", show_metrics),
        ],
        lifespan=lifespan,
    )


async def _read_json(request: Any, most_bytes: int) -> Any:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise _TooLongError(f"a request has at most {most_bytes} bytes; send fewer or shorter queries")
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the body is no JSON: {error}") from error


def serve(
    retriever: Retriever,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    config: ServerConfig | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress are finished first.

    Args:
        retriever: The corpus.
        host: Address to listen on.
        port: Port; 0 takes a free one.
        config: Limits.
        on_listening: Told the server's address when connections are accepted.

    Raises:
        ConfigError: The address cannot be used, or the extra [search] is not installed.
    """
    app = create_app(retriever, config)
    try:
        import uvicorn
    except ImportError as error:
        raise ConfigError(
            f"the server needs the extra [search]: pip install 'agent-gym[search]' ({error})"
        ) from error
    limits = config or ServerConfig()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error}. Choose another --host or --port"
            ) from error
        listener.listen(2048)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=limits.stop_seconds,
                timeout_keep_alive=75,
            )
        )
        if on_listening is not None:
            shown = f"[{host}]" if family == socket.AF_INET6 else host
            on_listening(f"http://{shown}:{listener.getsockname()[1]}")
        # uvicorn sends itself the signal again after its graceful stop, which would end the process
        handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            server.run(sockets=[listener])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

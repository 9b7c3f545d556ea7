"""Running the site: in the foreground for people, or in a thread of this process for an environment."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from agent_gym.envs.webshop.site.addresses import MAX_PATH
from agent_gym.envs.webshop.site.app import ShopSite
from agent_gym.support.errors import AgentGymError, ConfigError

if TYPE_CHECKING:
    import uvicorn

_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 30


def serve(site: ShopSite, host: str, port: int, on_listening: Callable[[str], None] = lambda address: None) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        site: The site.
        host: Address to listen on.
        port: Port; 0 takes a free one.
        on_listening: Told the site's address.

    Raises:
        ConfigError: The address cannot be listened on.
    """
    import uvicorn

    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    on_listening(f"http://{shown}:{listener.getsockname()[1]}")
    uvicorn.Server(_config(site)).run(sockets=[listener])


class LocalSite:
    """A site served from a thread of this process on a free loopback port, from construction to `stop`."""

    def __init__(self, site: ShopSite) -> None:
        import uvicorn

        self.site = site
        self._listener = _listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._server = uvicorn.Server(_config(site))
        arguments = {"sockets": [self._listener]}
        self._thread = threading.Thread(target=self._server.run, kwargs=arguments, name="webshop-site", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise AgentGymError(f"the shop's site did not start on {self.url} within {_START_SECONDS:.0f} s")
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._listener.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise ConfigError(
            f"cannot listen on {host} port {port} ({reason}); choose another one with --port"
        ) from error
    listener.listen(512)
    return listener


def _config(site: ShopSite) -> uvicorn.Config:
    import uvicorn

    return uvicorn.Config(
        site.application(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        h11_max_incomplete_event_size=2 * MAX_PATH,
        http="h11",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=2,
    )

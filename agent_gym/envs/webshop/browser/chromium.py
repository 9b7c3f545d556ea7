"""One headless Chromium under a driver: started, and ended without a trace.

Selenium talks to a chromedriver that a supervisor runs (see `supervisor`), so that browser, driver and their
temporary files are gone when nobody uses them any more, and also when this process is killed.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from agent_gym.envs.webshop.browser.tools import find_browser, find_driver, require_tools
from agent_gym.support.errors import AgentGymError

WINDOW: Final = (1024, 768)
"""Width and height of the window in pixels."""
PAGE_SECONDS: Final = 60
"""Longest time that a page may take."""
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # the pages are our own, and containers have no user namespaces
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-features=Translate,OptimizationHints,MediaRouter,InterestFeedContentSuggestions",
    "--disable-search-engine-choice-screen",
    "--process-per-site",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--lang=en-US",
)
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 20.0
_STARTED: Final = re.compile(rb"started successfully on port (\d+)")


class BrowserError(AgentGymError, RuntimeError):
    """A browser that did not start, crashed, or did not load a page. The episode ends as `tool_error`."""


class Chromium:
    """A running Chromium.

    Attributes:
        driver: Selenium's driver.
        tabs: Handles of the tabs in use.

    Raises:
        ConfigError: Selenium, Chromium or chromedriver is not installed.
        BrowserError: It did not start.
    """

    def __init__(self) -> None:
        require_tools()
        from selenium.webdriver import ChromeOptions, Remote
        from selenium.webdriver.common.proxy import Proxy, ProxyType
        from selenium.webdriver.remote.client_config import ClientConfig

        self.owner = os.getpid()
        self.tabs: set[str] = set()
        driver, browser = find_driver(), find_browser()
        assert driver is not None and browser is not None
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py")), driver, "--port=0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            address = f"http://127.0.0.1:{self._port()}"
            options = ChromeOptions()
            options.binary_location = browser
            for argument in (*_ARGUMENTS, f"--window-size={WINDOW[0]},{WINDOW[1]}"):
                options.add_argument(argument)
            direct = Proxy(raw={"proxyType": ProxyType.DIRECT})
            config = ClientConfig(remote_server_addr=address, timeout=2 * PAGE_SECONDS, proxy=direct)
            self.driver: Any = Remote(address, options=options, client_config=config)
            self.driver.set_page_load_timeout(PAGE_SECONDS)
            self.driver.set_script_timeout(PAGE_SECONDS)
        except Exception as error:
            self.close()
            if isinstance(error, BrowserError):
                raise
            raise BrowserError(f"Chromium did not start: {first_line(error)}") from error
        except BaseException:
            self.close()
            raise

    def _port(self) -> int:
        """Return the port that the driver says it listens on."""
        assert self._process is not None and self._process.stdout is not None
        stream, said = self._process.stdout, b""
        deadline = time.monotonic() + _START_SECONDS
        while (found := _STARTED.search(said)) is None:
            # Not select.select, which takes no descriptor from 1,024 on.
            with selectors.DefaultSelector() as selector:
                selector.register(stream, selectors.EVENT_READ)
                ready = selector.select(max(0.0, deadline - time.monotonic()))
            part = os.read(stream.fileno(), 4096) if ready else b""
            if not part:
                lines = said.decode("utf-8", "replace").strip().splitlines()
                raise BrowserError(f"chromedriver did not start: {lines[-1] if lines else 'it said nothing'}")
            said += part
        return int(found[1])

    @property
    def process_id(self) -> int | None:
        """Process id of the supervisor, under which all processes of the browser run; None when ended."""
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started by this process and has not ended."""
        return self._process is not None and self.owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """End the browser, its driver and everything that they started. May be called again."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        if self.owner != os.getpid():
            return  # a forked process does not end the browser of its parent
        process.terminate()  # the pipe alone is not enough: a forked process may hold it open
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def first_line(error: Exception) -> str:
    """Return the first line of an error of Selenium."""
    text = getattr(error, "msg", None) or str(error) or type(error).__name__
    return str(text).strip().splitlines()[0]

"""One headless Chromium: started, driven through pages of the shop, and ended without a trace.

Selenium talks to a chromedriver that a supervisor runs (see `supervisor`), so that browser, driver and their
temporary files are gone when the environment is closed, and also when its process is killed.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent_gym.core.errors import AgentGymError
from agent_gym.envs.webshop.browser.tools import find_browser, find_driver, require_tools

_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # the pages are our own, and containers have no user namespaces
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-features=Translate,OptimizationHints,MediaRouter,InterestFeedContentSuggestions",
    "--disable-search-engine-choice-screen",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--lang=en-US",
)
WINDOW: Final = (1024, 768)
"""Width and height of the window in pixels, and of screenshots."""
_START_SECONDS: Final = 60.0
_PAGE_SECONDS: Final = 60.0
_STARTED: Final = re.compile(rb"started successfully on port (\d+)")

# Texts in document order, with those that the page gives to text observations in `data-observation`.
_READ: Final = """
const texts = [];
const walk = (node) => {
  if (node.nodeType === Node.TEXT_NODE) { texts.push(node.data); return; }
  if (node.nodeType !== Node.ELEMENT_NODE || /^(STYLE|SCRIPT|HEAD|TITLE|META)$/.test(node.tagName)) return;
  if (node.hasAttribute("data-observation")) {
    if (node.getAttribute("data-observation")) texts.push(node.getAttribute("data-observation"));
    return;
  }
  node.childNodes.forEach(walk);
};
walk(document.documentElement);
const reward = document.querySelector("#reward pre");
return {texts, url: location.href, reward: reward ? reward.textContent : null,
        search: document.querySelector("#search_input") !== null};
"""
# What has a name, in lower case: of several option values with one name the last, before all links and buttons.
_FIND: Final = """
const name = arguments[0];
const lower = (text) => text.trim().toLowerCase();
const radios = [...document.querySelectorAll("input[type=radio]")];
const chips = radios.filter((chip) => chip.value.toLowerCase() === name);
if (chips.length) { const chip = chips.at(-1); return chip.labels[0] || chip; }
const others = [...document.querySelectorAll("button, a.btn, a.product-link")];
return others.find((element) => lower(element.textContent) === name) || null;
"""
_MARK: Final = "window.agentGymLeft = true;"
_READY: Final = "return window.agentGymLeft === undefined && document.readyState === 'complete';"


class BrowserError(AgentGymError, RuntimeError):
    """A browser that did not start, crashed, or did not load a page. The episode ends as `tool_error`."""


@dataclass(frozen=True)
class PageRead:
    """What the browser shows.

    Attributes:
        text: Texts of the page, joined as in the text observation.
        url: Address.
        reward: The score that the receipt prints, None on other pages.
        has_search_box: Whether there is the search box.
    """

    text: str
    url: str
    reward: float | None
    has_search_box: bool


class Browser:
    """A running Chromium.

    Raises:
        ConfigError: Selenium, Chromium or chromedriver is not installed.
        BrowserError: It did not start.
    """

    def __init__(self) -> None:
        require_tools()
        from selenium.webdriver import ChromeOptions, Remote
        from selenium.webdriver.remote.client_config import ClientConfig

        driver, chromium = find_driver(), find_browser()
        assert driver is not None and chromium is not None
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py")), driver, "--port=0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            address = f"http://127.0.0.1:{self._port()}"
            options = ChromeOptions()
            options.binary_location = chromium
            for argument in (*_ARGUMENTS, f"--window-size={WINDOW[0]},{WINDOW[1]}"):
                options.add_argument(argument)
            options.page_load_strategy = "normal"
            config = ClientConfig(remote_server_addr=address, timeout=int(_PAGE_SECONDS * 2))
            self._driver: Any = Remote(address, options=options, client_config=config)
            self._driver.set_page_load_timeout(_PAGE_SECONDS)
            self._driver.set_script_timeout(_PAGE_SECONDS)
        except Exception as error:
            self.close()
            if isinstance(error, BrowserError):
                raise
            raise BrowserError(f"Chromium did not start: {_first_line(error)}") from error

    def _port(self) -> int:
        """Return the port that the driver says it listens on."""
        assert self._process is not None and self._process.stdout is not None
        stream, said = self._process.stdout, b""
        deadline = time.monotonic() + _START_SECONDS
        while (found := _STARTED.search(said)) is None:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(stream.fileno(), 4096) if ready else b""
            if not part:
                lines = said.decode("utf-8", "replace").strip().splitlines()
                raise BrowserError(f"chromedriver did not start: {lines[-1] if lines else 'it said nothing'}")
            said += part
        return int(found[1])

    @property
    def process_id(self) -> int | None:
        """Process id of the supervisor, under which all of the browser's processes run; None when closed."""
        return None if self._process is None else self._process.pid

    def open(self, url: str) -> PageRead:
        """Go to an address and read the page."""
        try:
            self._driver.get(url)
        except Exception as error:
            raise _lost(error) from error
        return self.read()

    def read(self) -> PageRead:
        """Read the page that is shown."""
        try:
            found = self._driver.execute_script(_READ)
        except Exception as error:
            raise _lost(error) from error
        texts = [text for text in found["texts"] if not (text.isspace() and "\n" in text)]
        reward = found["reward"]
        return PageRead(
            " [SEP] ".join(text.strip() for text in texts),
            found["url"],
            None if reward is None else float(reward),
            bool(found["search"]),
        )

    def search(self, query: str) -> PageRead:
        """Type a query into the search box and press Enter; characters that no keyboard has are pasted."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        try:
            box = self._driver.find_element(By.ID, "search_input")
            box.clear()
            if all(" " <= character <= "\uffff" and not "\ue000" <= character <= "\uf8ff" for character in query):
                box.send_keys(query)
            else:  # the driver takes private-use characters for keys, and types none beyond the first plane
                self._driver.execute_script("arguments[0].value = arguments[1];", box, query)
            self._driver.execute_script(_MARK)
            box.send_keys(Keys.ENTER)
        except Exception as error:
            raise _lost(error) from error
        return self._arrived()

    def click(self, name: str) -> PageRead | None:
        """Click what has this name in lower case and read the page that it leads to; None when nothing has it."""
        from selenium.common.exceptions import ElementNotInteractableException, JavascriptException

        try:
            element = self._driver.execute_script(_FIND, name)
            if element is None:
                return None
            self._driver.execute_script(_MARK)
            try:
                element.click()
            except (ElementNotInteractableException, JavascriptException):
                self._driver.execute_script("arguments[0].click();", element)
        except Exception as error:
            raise _lost(error) from error
        return self._arrived()

    def _arrived(self) -> PageRead:
        """Wait until another page is loaded, and read it."""
        deadline = time.monotonic() + _PAGE_SECONDS
        pause = 0.002
        while True:
            try:
                if self._driver.execute_script(_READY):
                    return self.read()
            except Exception as error:
                if time.monotonic() > deadline or not _between_pages(error):
                    raise _lost(error) from error
            if time.monotonic() > deadline:
                raise BrowserError(f"no other page was loaded within {_PAGE_SECONDS:.0f} s of a click")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)

    def screenshot(self) -> bytes:
        """Return the window as PNG."""
        try:
            found: bytes = self._driver.get_screenshot_as_png()
        except Exception as error:
            raise _lost(error) from error
        return found

    def close(self) -> None:
        """End the browser, its driver and everything that they started. May be called again."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return  # a forked process does not end the browser of its parent
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()


def _lost(error: Exception) -> BrowserError:
    return BrowserError(f"the browser was lost: {_first_line(error)}")


def _between_pages(error: Exception) -> bool:
    """Tell whether a script failed only because one page was giving way to the next."""
    from selenium.common.exceptions import JavascriptException, StaleElementReferenceException

    return isinstance(error, JavascriptException | StaleElementReferenceException) or "execution context" in str(
        error
    )


def _first_line(error: Exception) -> str:
    text = getattr(error, "msg", None) or str(error) or type(error).__name__
    return str(text).strip().splitlines()[0]

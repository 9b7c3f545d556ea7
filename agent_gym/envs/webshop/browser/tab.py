"""Tabs of the one browser that all environments of a process share.

What a tab shows depends on its address alone, because the shop's addresses hold everything that a page shows. So
a copy of a tab is another tab at the same address, and a tab whose browser was lost is opened again in the next
one. The browser ends when its last tab is closed or forgotten.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from agent_gym.envs.webshop.browser.chromium import PAGE_SECONDS, BrowserError, Chromium, first_line
from agent_gym.envs.webshop.text import SEPARATOR

_Found = TypeVar("_Found")

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
return {texts, url: location.href, reward: reward ? reward.textContent : null};
"""
# What has a name, in lower case: of several option values with one name the last, before all buttons and links.
_FIND: Final = """
const name = arguments[0];
const radios = [...document.querySelectorAll("input[type=radio]")];
const chips = radios.filter((chip) => chip.value.toLowerCase() === name);
if (chips.length) { const chip = chips.at(-1); return chip.labels[0] || chip; }
const others = [...document.querySelectorAll("button, a.btn, a.product-link")];
return others.find((element) => element.textContent.trim().toLowerCase() === name) || null;
"""
_MARK: Final = "window.agentGymLeft = true;"
_CHOSEN: Final = """
const element = arguments[0], inside = element.querySelector("input[type=radio]");
const radio = element.matches("input[type=radio]") ? element : inside || element.control;
return Boolean(radio && radio.type === "radio" && radio.checked);
"""
_READY: Final = "return window.agentGymLeft === undefined && document.readyState === 'complete';"
_WORKING: Final = ""
"""Stands among the tabs of a browser while one of them works, perhaps before it is open."""
_TYPED: Final = 60
"""Characters of a query that are typed key by key; longer ones are pasted."""


@dataclass(frozen=True)
class PageRead:
    """What a tab shows.

    Attributes:
        text: Texts of the page, joined as in the text observation.
        url: Address.
        reward: The score that the receipt prints, None on other pages.
    """

    text: str
    url: str
    reward: float | None


class Tab:
    """A tab, opened when it is first used.

    Attributes:
        url: Address of the page that it shows, "" before the first one.
    """

    def __init__(self, url: str = "") -> None:
        self.url = url
        self._browser: Chromium | None = None
        self._handle = ""

    def open(self, url: str) -> PageRead:
        """Go to an address and read the page.

        Raises:
            BrowserError: The browser was lost, or did not load the page.
            ConfigError: Selenium, Chromium or chromedriver is not installed.
        """

        def go(driver: Any) -> PageRead:
            driver.get(url)
            return self._read(driver)

        self.url = ""
        return self._do(go)

    def search(self, query: str) -> PageRead:
        """Enter a query into the page's search box and read the page that it leads to; raises as `open` does."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        def enter(driver: Any) -> PageRead:
            box = driver.find_element(By.ID, "search_input")
            box.clear()
            if len(query) <= _TYPED and all(map(_on_keyboard, query)):
                box.send_keys(query)
            else:
                driver.execute_script("arguments[0].value = arguments[1];", box, query)
            driver.execute_script(_MARK)
            box.send_keys(Keys.ENTER)
            return self._arrived(driver)

        return self._do(enter)

    def click(self, name: str) -> PageRead:
        """Click what has this name in lower case and read the page that it leads to; raises as `open` does."""
        from selenium.common.exceptions import ElementNotInteractableException, JavascriptException

        def press(driver: Any) -> PageRead:
            element = driver.execute_script(_FIND, name)
            if element is None:
                raise BrowserError(f"the page has nothing named {name!r} to click")
            if driver.execute_script(_CHOSEN, element):  # a radio button that is on loads no page
                return self._read(driver)
            driver.execute_script(_MARK)
            try:
                element.click()
            except (ElementNotInteractableException, JavascriptException):
                driver.execute_script("arguments[0].click();", element)
            return self._arrived(driver)

        return self._do(press)

    def screenshot(self) -> bytes:
        """Return the window as PNG; raises as `open` does."""

        def take(driver: Any) -> bytes:
            found: bytes = driver.get_screenshot_as_png()
            return found

        return self._do(take)

    def _do(self, work: Callable[[Any], _Found]) -> _Found:
        with _LOCK:
            browser = _browser()
            browser.tabs.add(_WORKING)
            try:
                self._enter(browser)
                return work(browser.driver)
            except BaseException as error:
                _lose(browser)
                if isinstance(error, BrowserError) or not isinstance(error, Exception):
                    raise
                raise BrowserError(f"the browser was lost: {first_line(error)}") from error
            finally:
                browser.tabs.discard(_WORKING)

    def _enter(self, browser: Chromium) -> None:
        """Make this the tab that the driver works on, opening it where it was if it is not there."""
        driver = browser.driver
        while _FORGOTTEN:
            owner, handle = _FORGOTTEN.popleft()
            if owner is browser and handle in browser.tabs:
                driver.switch_to.window(handle)
                driver.close()
                browser.tabs.discard(handle)
        if self._browser is browser:
            driver.switch_to.window(self._handle)
            return
        driver.switch_to.window(driver.window_handles[0])  # the first one stays empty: the last may not be closed
        driver.switch_to.new_window("tab")
        self._browser, self._handle = browser, driver.current_window_handle
        browser.tabs.add(self._handle)
        if self.url:
            driver.get(self.url)

    def _read(self, driver: Any) -> PageRead:
        found = driver.execute_script(_READ)
        texts = [text for text in found["texts"] if not (text.isspace() and "\n" in text)]
        reward = found["reward"]
        self.url = found["url"]
        text = SEPARATOR.join(text.strip() for text in texts)
        return PageRead(text, self.url, None if reward is None else float(reward))

    def _arrived(self, driver: Any) -> PageRead:
        """Wait until another page is loaded, and read it."""
        from selenium.common.exceptions import WebDriverException

        deadline = time.monotonic() + PAGE_SECONDS
        pause = 0.002
        while True:
            try:
                if driver.execute_script(_READY):
                    return self._read(driver)
            except WebDriverException as error:
                if "execution context" not in str(error) or time.monotonic() > deadline:
                    raise  # else one page is just giving way to the next
            if time.monotonic() > deadline:
                raise BrowserError(f"no other page was loaded within {PAGE_SECONDS} s of a click")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)

    def close(self) -> None:
        """Close the tab, and the browser if it was its last one. It opens again when it is used."""
        with _LOCK:
            browser, self._browser = self._browser, None
            if browser is None or not browser.running:
                return
            browser.tabs.discard(self._handle)
            if not browser.tabs:
                _lose(browser)
                return
            try:
                browser.driver.switch_to.window(self._handle)
                browser.driver.close()
            except Exception:  # whatever Selenium and the connection raise: the other tabs open again
                _lose(browser)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tab:
        return Tab(self.url)

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "_browser": None, "_handle": ""}

    def __del__(self) -> None:
        browser = getattr(self, "_browser", None)
        if browser is None or browser.owner != os.getpid():
            return
        # The garbage collector can run in the middle of another tab's work, which must not be disturbed.
        if browser.tabs <= {self._handle}:
            _lose(browser)
        else:
            _FORGOTTEN.append((browser, self._handle))


_LOCK = threading.RLock()
_FORGOTTEN: Final[deque[tuple[Chromium, str]]] = deque()
_SHARED: Final[list[Chromium]] = []


def _browser() -> Chromium:
    """Return this process's browser, started if there is none."""
    if _SHARED and not _SHARED[0].running:
        _lose(_SHARED[0])
    if not _SHARED:
        _FORGOTTEN.clear()
        _SHARED.append(Chromium())
    return _SHARED[0]


def _lose(browser: Chromium) -> None:
    """End a browser; its tabs open again in the next one."""
    if browser in _SHARED:
        _SHARED.remove(browser)
    browser.tabs.clear()
    browser.close()


def _on_keyboard(character: str) -> bool:
    """Tell whether the driver types a character: private-use ones are keys to it, and it has none beyond U+FFFF."""
    return " " <= character <= "\uffff" and not "\ue000" <= character <= "\uf8ff"


def _after_fork() -> None:
    """Leave the parent's browser to it, and make a new lock: another thread may have held the old one."""
    global _LOCK
    _LOCK = threading.RLock()
    for browser in _SHARED:
        browser.close()  # closes the inherited pipes only
    _SHARED.clear()


os.register_at_fork(after_in_child=_after_fork)

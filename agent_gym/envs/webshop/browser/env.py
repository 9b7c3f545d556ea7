"""WebShop in a real browser."""

from __future__ import annotations

import copy
import inspect
import json
import secrets
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from agent_gym.core.env import Outcome
from agent_gym.core.info import StopReason
from agent_gym.core.tasks import Task
from agent_gym.envs.webshop.browser.chromium import BrowserError
from agent_gym.envs.webshop.browser.sites import SessionPin, local_site
from agent_gym.envs.webshop.browser.tab import PageRead, Tab
from agent_gym.envs.webshop.browser.tools import require_tools
from agent_gym.envs.webshop.env import WebShopEnv
from agent_gym.envs.webshop.site.addresses import MAX_QUERY, Address
from agent_gym.envs.webshop.world import actions
from agent_gym.envs.webshop.world.shop import Session
from agent_gym.support.errors import ConfigError

_HEALTH_SECONDS: Final = 10.0


class WebShopBrowserEnv(WebShopEnv):
    """WebShop played in headless Chromium, on the shop's own site.

    ## Description
    The tasks, actions, texts and rewards of `WebShopEnv`, but every accepted action is carried out in a browser:
    queries are entered into the search box, names are clicked, and observation and reward are read from the page.
    Needs the extra `[webshop]`, Chromium and chromedriver (Debian: `apt-get install chromium chromium-driver`).
    All environments of a process share one browser and have a tab each.

    ## Action Space
    As `WebShopEnv`.

    ## Observation Space
    The page's texts as the browser shows them, equal to those of `WebShopEnv` with `observation="text"`.

    ## Rewards
    As `WebShopEnv`, read from the receipt.

    ## Starting State
    As `WebShopEnv`.

    ## Episode End
    As `WebShopEnv`. A browser that is lost in the middle of an episode ends it with the stop reason `tool_error`;
    the next reset starts another one.

    ## Information
    As `WebShopEnv`.

    ## Arguments

    Args:
        url: A site to shop on (`agent-gym serve webshop`), which must have the same catalogue, goals and reward;
            None starts one on a free loopback port.
        options: All other arguments of `WebShopEnv` but `observation`; `render_mode` may be "rgb_array" too, a
            screenshot.

    Raises:
        ConfigError: An argument is out of range, the browser is not installed, or the site is another one.
        DataError: The catalogue is missing or malformed.

    ## Version History
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012
    prompt_folder: ClassVar[Path] = WebShopEnv.prompt_folder

    def __init__(self, *, url: str | None = None, **options: Any) -> None:
        if "observation" in options:
            raise ConfigError(
                "WebShopBrowser-v0 shows what the browser does, observation 'text'; drop observation="
            )
        require_tools()
        super().__init__(**options)
        if url is not None and not url.startswith(("http://", "https://")):
            raise ConfigError(
                f"url must be the address of a shop's site, such as http://127.0.0.1:3000, got {url!r}"
            )
        self.url = None if url is None else url.rstrip("/")
        self._tab = Tab()
        self._pin: SessionPin | None = None
        self._site_url = ""

    def _begin(self, task: Task) -> str:
        super()._begin(task)
        session = self.session
        self._session = None  # until the browser shows the start page, no episode has begun
        session.name = secrets.token_hex(8)
        if self.url is not None:
            session.name += f"-fixed_{session.goal.index}"
            self._check_site(session)
        self._pin = None
        self._connect(session)
        address = self._address(session)
        try:
            page = self._tab.open(address)
        except BrowserError:  # one that was lost between two episodes harms neither
            page = self._tab.open(address)
        self._check_arrival(page, session)
        self._session = session
        return self._cut(page.text)

    def _connect(self, session: Session) -> None:
        """Make the session known to the site, if it is not; a pickled or closed environment has left its site."""
        if self.url is not None:
            self._site_url = self.url
        elif self._pin is None:
            site = local_site(self.world, self._rules, session.goal)
            self._pin = SessionPin(site.site.visits, session.name, session.goal)
            self._site_url = site.url
        else:
            return
        if self._session is not None:
            self._tab.url = self._address(session)

    def _act(self, action: str) -> Outcome:
        session = self.session
        # What a browser does with half of a surrogate pair, so that both sides see the same words.
        action = action.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._connect(session)
        had_box = session.has_search_box
        parsed = actions.parse_action(action, session.shop.compat)
        outcome = super()._act(action)
        if not outcome.valid or parsed is None:
            return Outcome(self._observation, valid=False)
        try:
            if parsed.name == actions.CLICK:
                page = self._tab.click(parsed.argument)
            elif had_box and len(parsed.argument) <= MAX_QUERY and parsed.argument.isprintable():
                page = self._tab.search(parsed.argument)
            else:  # the original takes searches on every page, where no person could enter them
                page = self._tab.open(self._address(session))
            self._check_arrival(page, session)
            if outcome.ended and page.reward is None:
                raise BrowserError("the receipt prints no score")
        except BrowserError as error:
            return Outcome(str(error), valid=True, ended=True, score=0.0, stop_reason=StopReason.TOOL_ERROR)
        if page.reward is None:
            return Outcome(self._cut(page.text))
        score = page.reward
        return Outcome(
            self._cut(page.text),
            self._scaled(score),
            success=score == 1.0,
            ended=True,
            score=score,
            extras=outcome.extras,
        )

    def _address(self, session: Session) -> str:
        return self._site_url + page_address(session).path()

    def _check_arrival(self, page: PageRead, session: Session) -> None:
        """Raise BrowserError unless the browser is where the shop's rules lead."""
        expected = self._address(session)
        if page.url != expected:
            raise BrowserError(f"the browser is at {page.url} instead of {expected}")

    def _check_site(self, session: Session) -> None:
        """Raise ConfigError unless the external site has the goal of this session."""
        from agent_gym.envs.webshop.site.setup import site_digest

        goal = session.goal
        if goal.index < 0:
            raise ConfigError("a task that is in no list cannot be played on an external site (url=)")
        try:
            with build_opener(ProxyHandler({})).open(f"{self.url}/health", timeout=_HEALTH_SECONDS) as answer:
                found = json.loads(answer.read())["digest"]
        except (URLError, OSError, ValueError, KeyError, TypeError) as error:
            raise BrowserError(
                f"no shop's site answers at {self.url}: {error}. Start it: agent-gym serve webshop"
            ) from error
        expected = site_digest(self.world, goal.kind, self._rules)
        if found != expected:
            raise ConfigError(
                f"the site at {self.url} has another catalogue, goals or reward than this environment (digest "
                f"{found!r}, expected {expected!r}); give both the same arguments"
            )

    def render(self) -> Any:
        """Return a screenshot as uint8 [height, width, 3] ("rgb_array") or the page as text ("ansi")."""
        if self.render_mode != "rgb_array":
            return super().render()
        import io

        import numpy as np
        from PIL import Image

        with Image.open(io.BytesIO(self._tab.screenshot())) as image:
            return np.asarray(image.convert("RGB"))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pin": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> WebShopBrowserEnv:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def close(self) -> None:
        """Close the tab; the browser ends with its last one."""
        self._tab.close()
        self._pin = None
        super().close()


def page_address(session: Session) -> Address:
    """Return the site's address of the page that a session is on."""
    page = session.page()
    asin = "" if page.product is None else page.product.asin
    return Address(
        page.kind,
        session.name,
        keywords=page.keywords,
        number=page.number,
        asin=asin,
        selected=page.selected,
        sub_page=page.sub_page,
    )


def _signature() -> inspect.Signature:
    """Return the constructor's arguments: those of `WebShopEnv`, with `url` in place of `observation`."""
    url = inspect.Parameter("url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None")
    known = inspect.signature(WebShopEnv).parameters
    return inspect.Signature([url, *(value for name, value in known.items() if name != "observation")])


WebShopBrowserEnv.__signature__ = _signature()  # type: ignore[attr-defined]

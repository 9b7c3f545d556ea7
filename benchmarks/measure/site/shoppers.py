"""Scripted shoppers on the shop's site, many at once, over real connections."""

from __future__ import annotations

import asyncio
import html
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_gym.support.errors import AgentGymError

_OPTION = re.compile(r'data-url="([^"]+)"')
_PRODUCT = re.compile(r'class="product-link[^"]*" href="([^"]+)"')
_BUTTON = re.compile(r'class="btn btn-primary" href="([^"]+)"')
_BUY = re.compile(r'action="(/done/[^"]+)"')
_GOAL = re.compile(r"</span><br>(.*?)</h4>", re.DOTALL)
_SCORE = re.compile(r"max 1\.0\)</p>\s*<pre>([\d.]+)</pre>")
_TIMEOUT = 60.0


@dataclass
class Tally:
    """What the shoppers met.

    Attributes:
        seconds: Time of each answer.
        kinds: Answers by kind of page.
        errors: What went wrong, by kind.
        visits: Visits that ended with a purchase.
    """

    seconds: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    visits: int = 0


def shop(url: str, shoppers: int, seconds: float, think: float, seed: int = 0) -> Tally:
    """Let shoppers visit a site for a time; each goes from search to purchase, then comes again.

    Args:
        url: The site.
        shoppers: Visitors at once, each with a connection of its own.
        seconds: How long.
        think: Mean pause between two pages, in seconds.
        seed: Seed of what they choose.
    """
    try:
        import httpx
    except ImportError as error:
        raise AgentGymError("the shoppers need httpx: pip install 'agent-gym[endpoint]'") from error

    tally = Tally()
    end = time.monotonic() + seconds
    visitors = [
        Shopper(f"shopper-{number}", random.Random(f"{seed}-{number}"), end, think, tally)
        for number in range(shoppers)
    ]

    async def all_of_them() -> None:
        await asyncio.gather(*(visitor.run(httpx, url) for visitor in visitors))

    asyncio.run(all_of_them())
    return tally


@dataclass(frozen=True)
class Shopper:
    """One visitor with a connection of its own.

    Attributes:
        name: Names its visits.
        rng: Draws what it chooses.
        end: When it stops, by the monotonic clock.
        think: Mean pause between two pages, in seconds.
        tally: Where it counts.
    """

    name: str
    rng: random.Random
    end: float
    think: float
    tally: Tally

    async def run(self, httpx: Any, url: str) -> None:
        """Visit the site again and again until the end."""
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        async with httpx.AsyncClient(
            base_url=url, timeout=_TIMEOUT, limits=limits, follow_redirects=True, trust_env=False
        ) as client:
            await asyncio.sleep(self.rng.random() * self.think)
            visit = 0
            while time.monotonic() < self.end:
                await self._visit(client, f"{self.name}-{visit}")
                visit += 1

    async def _ask(self, client: Any, kind: str, method: str, path: str, **form: str) -> str:
        """Return the text of a page, "" where there was no answer; then pause."""
        begin = time.perf_counter()
        try:
            answer = await client.request(method, html.unescape(path), data=form or None)
        except Exception as error:
            self.tally.errors[type(error).__name__] += 1
            return ""
        self.tally.seconds.append(time.perf_counter() - begin)
        self.tally.kinds[kind] += 1
        if answer.status_code != 200:
            self.tally.errors[f"status {answer.status_code}"] += 1
        await asyncio.sleep(self.rng.expovariate(1 / self.think) if self.think else 0)
        return str(answer.text)

    async def _visit(self, client: Any, session: str) -> None:
        """Go from the instruction to the purchase."""
        ask, rng, tally = partial(self._ask, client), self.rng, self.tally
        page = await ask("index", "GET", f"/{session}")
        goal = _GOAL.search(page)
        if goal is None:
            tally.errors["no instruction"] += 1
            return
        words = html.unescape(goal[1]).split(", and price")[0].split()
        page = await ask("results", "POST", f"/{session}", search_query=" ".join(words))
        if rng.random() < 0.3:
            links = _BUTTON.findall(page)
            if links:
                page = await ask("results", "GET", links[-1])
        products = _PRODUCT.findall(page)
        if not products:
            return
        page = await ask("item", "GET", rng.choice(products))
        for _ in range(rng.randrange(3)):
            options = _OPTION.findall(page)
            if options and time.monotonic() < self.end:
                page = await ask("item", "GET", rng.choice(options))
        if rng.random() < 0.5:
            links = _BUTTON.findall(page)
            if links:
                await ask("sub page", "GET", rng.choice(links[1:] or links))
        buy = _BUY.search(page)
        if buy is None:
            tally.errors["nothing to buy"] += 1
            return
        page = await ask("done", "POST", buy[1])
        if _SCORE.search(page) is None:
            tally.errors["no score"] += 1
        else:
            tally.visits += 1

"""Pages as HTML. Every text is escaped; the texts of a page are those of the text observations, in their order.

Where the site shows more than the text environment does (the receipt's details), the element's attribute
`data-observation` holds what the text environment has there.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined

from agent_gym.envs.webshop.goals import Goal
from agent_gym.envs.webshop.kinds import PageKind, SubPage
from agent_gym.envs.webshop.pages import PAGE_SIZE, Page
from agent_gym.envs.webshop.product import RATING, Product
from agent_gym.envs.webshop.reward import RewardParts
from agent_gym.envs.webshop.site.addresses import MAX_QUERY, Address
from agent_gym.envs.webshop.text import receipt_options

_FILES: Final = {
    PageKind.INDEX: "index.html",
    PageKind.RESULTS: "results.html",
    PageKind.ITEM: "item.html",
    PageKind.SUB_PAGE: "sub_page.html",
    PageKind.DONE: "done.html",
}
_TEMPLATES: Final = ("layout.html", "error.html", *_FILES.values())


def render(
    page: Page,
    session: str,
    *,
    remote_images: bool = False,
    goal: Goal | None = None,
    parts: RewardParts | None = None,
) -> str:
    """Return the HTML of a page.

    Args:
        page: The page.
        session: Name of the session, for the links.
        remote_images: Whether pictures are loaded from where the catalogue says; else drawings of our own.
        goal: Goal of the session, for the receipt's hidden details.
        parts: Parts of the reward, for the same.
    """
    links = _Links(page, session)
    return (
        _environment()
        .get_template(_FILES[page.kind])
        .render(
            page=page,
            links=links,
            max_query=MAX_QUERY,
            page_size=PAGE_SIZE,
            rating=RATING,
            picture=lambda product, value=None: picture(product, value, remote=remote_images),
            receipt=receipt_options(page.selected) if page.kind is PageKind.DONE else "",
            code=purchase_code(session),
            goal=None if goal is None else goal.to_record(),
            parts=None if parts is None else parts.verbose(),
            sub_pages=[sub.value for sub in SubPage if sub is not SubPage.ATTRIBUTES or page.show_attributes],
        )
    )


def render_error(status: int, reason: str) -> str:
    """Return the HTML of an answer that is no page of the shop."""
    return _environment().get_template("error.html").render(status=status, reason=reason)


def purchase_code(session: str) -> str:
    """Return the code that the original's receipt shows: the first ten digits of the name's SHA-1."""
    return hashlib.sha1(session.encode("utf-8"), usedforsecurity=False).hexdigest()[:10].upper()


def picture(product: Product, value: str | None = None, *, remote: bool = False) -> str:
    """Return the address of a product's picture, or of the picture of one of its option values."""
    if remote:
        found = (product.option_images or {}).get(value) if value is not None else None
        if found is None and product.images:
            found = product.images[0]
        if found is not None and found.startswith(("https://", "http://")):
            return found
    name = value if value is not None else product.asin
    return f"/static/picture-{zlib.crc32(name.encode('utf-8', 'replace')) % 360}.svg"


class _Links:
    """Addresses that a page links to."""

    def __init__(self, page: Page, session: str) -> None:
        self._page = page
        self._session = session

    @property
    def start(self) -> str:
        return Address(PageKind.INDEX, self._session).path()

    def results(self, number: int) -> str:
        return Address(PageKind.RESULTS, self._session, self._page.keywords, number).path()

    @property
    def previous(self) -> str:
        """Where "< Prev" leads."""
        page = self._page
        if page.kind is PageKind.RESULTS:
            return self.results(page.number - 1)
        return (
            self.results(page.number) if page.kind is PageKind.ITEM else self.item(page.shown.asin, page.selected)
        )

    def item(self, asin: str, selected: Mapping[str, str] | None = None) -> str:
        page = self._page
        return Address(PageKind.ITEM, self._session, page.keywords, page.number, asin, selected or {}).path()

    def option(self, axis: str, value: str) -> str:
        """Address of the item page with one more option chosen."""
        return self.item(self._page.shown.asin, {**self._page.selected, axis: value})

    def sub_page(self, name: str) -> str:
        page = self._page
        place = (page.keywords, page.number, page.shown.asin, page.selected, SubPage(name))
        return Address(PageKind.SUB_PAGE, self._session, *place).path()

    @property
    def purchase(self) -> str:
        page = self._page
        return Address(PageKind.DONE, self._session, asin=page.shown.asin, selected=page.selected).path()


@cache
def _environment() -> Environment:
    folder = files(__package__) / "templates"
    sources = {name: (folder / name).read_text("utf-8") for name in _TEMPLATES}
    environment = Environment(
        loader=DictLoader(sources),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["pretty"] = _pretty
    return environment


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)

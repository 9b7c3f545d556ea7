"""Pages as markup: the observation mode `html`, and what the site serves.

The markup is this project's own. It has the elements by which agents find their way on the original site (ids,
classes, radio buttons with `data-url`), and an HTML parser finds the same texts in it, in the same order, as the
text observations have. Everything is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import jinja2

from agent_gym.envs.webshop.kinds import PageKind, SubPage
from agent_gym.envs.webshop.pages import Page
from agent_gym.envs.webshop.product import RATING
from agent_gym.envs.webshop.text import page_url, receipt_options

TEMPLATES: Final = Path(__file__).parent / "templates"
_TABS: Final = (SubPage.DESCRIPTION, SubPage.FEATURES, SubPage.REVIEWS)


class Links(Protocol):
    """Where the buttons of one page lead."""

    def start(self) -> str:
        """Return the address of the start page."""
        ...

    def results(self, number: int) -> str:
        """Return the address of a page of this search's results."""
        ...

    def item(self, asin: str) -> str:
        """Return the address of a product's page, with the options chosen so far if it is the page's product."""
        ...

    def option(self, axis: str, value: str) -> str:
        """Return the address of the page's product with one more option chosen."""
        ...

    def sub_page(self, name: str) -> str:
        """Return the address of a page below the page's product."""
        ...

    def done(self) -> str:
        """Return the address that buys the page's product."""
        ...


class PageLinks:
    """The addresses of the original, unquoted, as the observation mode `url` shows them.

    Args:
        page: The page that has the buttons.
        session: Name of the session.
    """

    def __init__(self, page: Page, session: str) -> None:
        self._page = page
        self._session = session

    def _to(self, kind: PageKind, **changes: object) -> str:
        values = {item.name: getattr(self._page, item.name) for item in fields(Page)}
        return page_url(Page(**{**values, "kind": kind, **changes}), self._session)

    def start(self) -> str:
        """Return the address of the start page."""
        return self._to(PageKind.INDEX)

    def results(self, number: int) -> str:
        """Return the address of a page of this search's results."""
        return self._to(PageKind.RESULTS, number=number)

    def item(self, asin: str) -> str:
        """Return the address of a product's page."""
        listed = next((product for product in self._page.products if product.asin == asin), self._page.product)
        return self._to(PageKind.ITEM, product=listed)

    def option(self, axis: str, value: str) -> str:
        """Return the address of the page's product with one more option chosen."""
        return self._to(PageKind.ITEM, selected={**self._page.selected, axis: value})

    def sub_page(self, name: str) -> str:
        """Return the address of a page below the page's product."""
        return self._to(PageKind.SUB_PAGE, sub_page=SubPage(name))

    def done(self) -> str:
        """Return the address that buys the page's product."""
        return self._to(PageKind.DONE)


@dataclass(frozen=True)
class Assets:
    """What a page loads, and limits of its fields.

    Attributes:
        styles: Addresses of style sheets.
        scripts: Addresses of scripts.
        longest_query: Characters of the search field.
    """

    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    longest_query: int = 1000


@dataclass(frozen=True)
class Receipt:
    """What the last page says beside the purchase; the text environment says nothing of it.

    Attributes:
        code: Code of the session.
        attributes: Attributes of the product bought.
        category: Its department.
        query: Its search query.
        product_category: Its category path.
        goal_asin: The goal's product.
        goal_options: Options asked for.
        goal_attributes: Attributes asked for.
        goal_price: Price limit.
        goal_instruction: The instruction.
        goal_category: Department of the goal's product.
        goal_product_category: Its category path.
        goal_query: Its search query.
        goal: The whole goal.
        reward_info: The reward's parts.
    """

    code: str = "None"
    attributes: str = "None"
    category: str = "None"
    query: str = "None"
    product_category: str = "None"
    goal_asin: str = ""
    goal_options: str = ""
    goal_attributes: str = ""
    goal_price: str = ""
    goal_instruction: str = ""
    goal_category: str = ""
    goal_product_category: str = ""
    goal_query: str = ""
    goal: str = "None"
    reward_info: str = "None"


def render_page(
    page: Page,
    session: str,
    *,
    links: Links | None = None,
    assets: Assets | None = None,
    receipt: Receipt | None = None,
) -> str:
    """Return the markup of a page.

    Args:
        page: The page.
        session: Name of the session.
        links: Where buttons lead; the original's unquoted addresses when None.
        assets: What the page loads; nothing when None.
        receipt: What the last page says beside the purchase.
    """
    done = page.kind is PageKind.DONE
    tabs = (*_TABS, SubPage.ATTRIBUTES) if page.show_attributes else _TABS
    return _template(page.kind).render(
        page=page,
        links=PageLinks(page, session) if links is None else links,
        assets=Assets() if assets is None else assets,
        details=Receipt() if receipt is None else receipt,
        receipt=receipt_options(page.selected) if done else "",
        picture=picture(page),
        rating=RATING,
        sub_pages=[tab.value for tab in tabs],
    )


def picture(page: Page) -> str:
    """Return the address of a product page's picture: of the last option chosen that has one, else the main one."""
    if page.product is None:
        return ""
    images: Mapping[str, str | None] = page.product.option_images or {}
    for value in reversed(list(page.selected.values())):
        found = images.get(value)
        if found:
            return found
    return page.product.images[0] if page.product.images else ""


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _template(kind: PageKind) -> jinja2.Template:
    return _environment().get_template(f"{kind.value}.html")

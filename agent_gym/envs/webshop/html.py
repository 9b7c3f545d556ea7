"""Pages as markup: the observation mode `html`, and what the site serves.

The markup is this project's own. It has the elements by which agents find their way on the original site (ids,
classes, radio buttons with `data-url`), and an HTML parser finds the same texts in it, in the same order, as the
text observations have. Where the site's receipt says more than the text environment's, the attribute
`data-observation` holds what the latter says. Everything is escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import jinja2

from agent_gym.envs.webshop.text import receipt_options
from agent_gym.envs.webshop.world.kinds import PageKind, SubPage
from agent_gym.envs.webshop.world.pages import Page
from agent_gym.envs.webshop.world.product import RATING, Product

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


def catalogue_picture(product: Product, value: str | None) -> str:
    """Return where the catalogue has the picture of an option value, or of the product; "" for none."""
    found = (product.option_images or {}).get(value) if value is not None else None
    return found or (product.images[0] if product.images else "")


@dataclass(frozen=True)
class Assets:
    """What a page loads, and limits of its fields.

    Attributes:
        styles: Addresses of style sheets.
        scripts: Addresses of scripts.
        icon: Address of the site's icon.
        picture: Function from a product, and one of its option values or None, to a picture's address.
        longest_query: Characters of the search field.
    """

    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    icon: str = ""
    picture: Callable[[Product, str | None], str] = catalogue_picture
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


def render_page(page: Page, links: Links, assets: Assets, receipt: Receipt | None = None) -> str:
    """Return the markup of a page.

    Args:
        page: The page.
        links: Where its buttons lead.
        assets: What it loads.
        receipt: What the last page says beside the purchase.
    """
    done = page.kind is PageKind.DONE
    tabs = (*_TABS, SubPage.ATTRIBUTES) if page.show_attributes else _TABS
    return _template(page.kind).render(
        page=page,
        links=links,
        assets=assets,
        details=Receipt() if receipt is None else receipt,
        receipt=receipt_options(page.selected) if done else "",
        picture=_picture(page, assets),
        rating=RATING,
        sub_pages=[tab.value for tab in tabs],
    )


def render_error(status: int, reason: str, assets: Assets) -> str:
    """Return the markup of an answer that is no page of the shop."""
    return _environment().get_template("error.html").render(status=status, reason=reason, assets=assets)


def _picture(page: Page, assets: Assets) -> str:
    """Return the picture of a product's page: of the last option chosen that has one, else the main one."""
    if page.product is None:
        return ""
    images = page.product.option_images or {}
    pictured = [value for value in page.selected.values() if images.get(value)]
    return assets.picture(page.product, pictured[-1] if pictured else None)


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

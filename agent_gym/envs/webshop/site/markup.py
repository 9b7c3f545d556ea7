"""What the site adds to the pages of `html`: its addresses, pictures, style and the receipt's details."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any, Final

from agent_gym.envs.webshop.html import Assets, Receipt, catalogue_picture, render_page
from agent_gym.envs.webshop.site.addresses import MAX_QUERY, Address
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import PageKind, SubPage
from agent_gym.envs.webshop.world.pages import Page
from agent_gym.envs.webshop.world.product import Product
from agent_gym.envs.webshop.world.reward import RewardParts


def render(
    page: Page,
    session: str,
    *,
    assets: Assets | None = None,
    goal: Goal | None = None,
    parts: RewardParts | None = None,
) -> str:
    """Return the HTML of a page.

    Args:
        page: The page.
        session: Name of the session, for the links.
        assets: What the page loads; `LOCAL_ASSETS` if None.
        goal: Goal of the session, for the receipt's hidden details.
        parts: Parts of the reward, for the same.
    """
    receipt = _receipt(page.shown, session, goal, parts) if page.kind is PageKind.DONE else None
    found = LOCAL_ASSETS if assets is None else assets
    return render_page(page, SiteLinks(page, session), found, receipt)


def purchase_code(session: str) -> str:
    """Return the code that the original's receipt shows: the first ten digits of the name's SHA-1."""
    return hashlib.sha1(session.encode("utf-8"), usedforsecurity=False).hexdigest()[:10].upper()


def drawn_picture(product: Product, value: str | None) -> str:
    """Return the address of a drawing in a colour that depends on the product, or on the option value."""
    name = product.asin if value is None else value
    return f"/static/picture-{zlib.crc32(name.encode('utf-8', 'replace')) % 360}.svg"


def remote_picture(product: Product, value: str | None) -> str:
    """Return where the catalogue has the picture, a drawing if it names no address."""
    found = catalogue_picture(product, value)
    return found if found.startswith(("https://", "http://")) else drawn_picture(product, value)


_PARTS: Final[dict[str, Any]] = {
    "styles": ("/static/site.css",),
    "scripts": ("/static/site.js",),
    "icon": "/static/icon.svg",
    "longest_query": MAX_QUERY,
}
LOCAL_ASSETS: Final = Assets(picture=drawn_picture, **_PARTS)
REMOTE_ASSETS: Final = Assets(picture=remote_picture, **_PARTS)


class SiteLinks:
    """Addresses that a page of the site links to.

    Args:
        page: The page.
        session: Name of the session.
    """

    def __init__(self, page: Page, session: str) -> None:
        self._page = page
        self._session = session

    def start(self) -> str:
        """Return the address of the start page."""
        return Address(PageKind.INDEX, self._session).path()

    def results(self, number: int) -> str:
        """Return the address of a page of this search's results."""
        return Address(PageKind.RESULTS, self._session, self._page.keywords, number).path()

    def item(self, asin: str) -> str:
        """Return the address of a product's page."""
        page = self._page
        selected = page.selected if page.product is not None and page.product.asin == asin else {}
        return Address(
            PageKind.ITEM, self._session, keywords=page.keywords, number=page.number, asin=asin, selected=selected
        ).path()

    def option(self, axis: str, value: str) -> str:
        """Return the address of the page's product with one more option chosen."""
        page, selected = self._page, {**self._page.selected, axis: value}
        return Address(
            PageKind.ITEM,
            self._session,
            keywords=page.keywords,
            number=page.number,
            asin=page.shown.asin,
            selected=selected,
        ).path()

    def sub_page(self, name: str) -> str:
        """Return the address of a page below the page's product."""
        page = self._page
        place = (page.keywords, page.number, page.shown.asin, page.selected, SubPage(name))
        return Address(PageKind.SUB_PAGE, self._session, *place).path()

    def done(self) -> str:
        """Return the address that buys the page's product."""
        page = self._page
        return Address(PageKind.DONE, self._session, asin=page.shown.asin, selected=page.selected).path()


def _receipt(product: Product, session: str, goal: Goal | None, parts: RewardParts | None) -> Receipt:
    asked = None if goal is None else goal.to_record()
    return Receipt(
        code=purchase_code(session),
        attributes=", ".join(product.attributes),
        category=product.category,
        query=product.query,
        product_category=product.product_category,
        goal_asin="" if asked is None else asked["asin"],
        goal_options="" if asked is None else _json(asked["goal_options"]),
        goal_attributes="" if asked is None else _json(asked["attributes"]),
        goal_price="" if asked is None else str(asked["price_upper"]),
        goal_instruction="" if asked is None else asked["instruction_text"],
        goal_category="" if asked is None else asked["category"],
        goal_product_category="" if asked is None else asked["product_category"],
        goal_query="" if asked is None else asked["query"],
        goal="None" if asked is None else _json(asked),
        reward_info="None" if parts is None else _json(parts.verbose()),
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)

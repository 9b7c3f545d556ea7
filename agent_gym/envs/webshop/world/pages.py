"""What a page shows, as data: the text observations and the site's markup are both made from it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from agent_gym.envs.webshop.world.kinds import Button, PageKind, SubPage
from agent_gym.envs.webshop.world.product import RATING, Product

PAGE_SIZE: Final = 10
"""Products on a page of results."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Attributes:
        kind: What it is.
        instruction: The goal's text, shown on every page but the last.
        keywords: Words of the search that led here.
        number: Number of the page of results, from 1.
        total: Products found.
        products: Products listed, on a page of results.
        visited: Identifiers of the products that were opened since the start page.
        product: Product shown (or bought).
        selected: Axis -> value chosen, in the order of the clicks.
        sub_page: Which page below the product's.
        show_attributes: Whether the item page has a button for the attributes.
        reward: Score of the purchase, on the last page.
    """

    kind: PageKind
    instruction: str
    keywords: tuple[str, ...] = ()
    number: int = 0
    total: int = 0
    products: tuple[Product, ...] = ()
    visited: Set[str] = frozenset()
    product: Product | None = None
    selected: Mapping[str, str] = field(default_factory=dict)
    sub_page: SubPage | None = None
    show_attributes: bool = False
    reward: float = 0.0

    @property
    def shown(self) -> Product:
        """The product of an item, sub or last page."""
        assert self.product is not None, f"a page of kind {self.kind.value!r} shows no single product"
        return self.product

    def __deepcopy__(self, memo: dict[int, Any]) -> Page:
        return self  # read-only

    def buttons(self) -> tuple[str, ...]:
        """Return the texts of the buttons in page order."""
        if self.kind is PageKind.INDEX:
            return (Button.SEARCH.value,)
        if self.kind is PageKind.RESULTS:
            return _RESULTS_FIRST if self.number <= 1 else _RESULTS_LATER
        if self.kind is PageKind.ITEM:
            return _ITEM_ATTRIBUTES if self.show_attributes else _ITEM
        return _SUB_PAGE if self.kind is PageKind.SUB_PAGE else ()

    def clickables(self) -> tuple[str, ...]:
        """Return what can be clicked, in lower case, each name once: buttons, products, option values."""
        names = _LOWER[self.buttons()]
        if self.kind is PageKind.RESULTS:
            return (*names, *(product.asin.lower() for product in self.products))
        if self.kind is PageKind.ITEM:
            return tuple(dict.fromkeys((*names, *self.shown.values)))
        return names


_RESULTS_FIRST: Final = (Button.BACK.value, Button.NEXT.value)
_RESULTS_LATER: Final = (Button.BACK.value, Button.PREVIOUS.value, Button.NEXT.value)
_SUB_PAGE: Final = (Button.BACK.value, Button.PREVIOUS.value)
_TABS: Final = (SubPage.DESCRIPTION.value, SubPage.FEATURES.value, SubPage.REVIEWS.value)
_ITEM: Final = (*_SUB_PAGE, *_TABS, Button.BUY.value)
_ITEM_ATTRIBUTES: Final = (*_SUB_PAGE, *_TABS, SubPage.ATTRIBUTES.value, Button.BUY.value)
_LOWER: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    names: tuple(name.lower() for name in names)
    for names in ((), (Button.SEARCH.value,), _RESULTS_FIRST, _RESULTS_LATER, _SUB_PAGE, _ITEM, _ITEM_ATTRIBUTES)
}


class NodeKind(Enum):
    """What a text on a page is."""

    TEXT = auto()
    BUTTON = auto()
    PRODUCT = auto()
    OPTION = auto()


class Node(NamedTuple):
    """One text of a page, with the white space that it has in the original's markup."""

    kind: NodeKind
    text: str
    axis: str = ""


_TEXT, _BUTTON, _PRODUCT, _OPTION = NodeKind.TEXT, NodeKind.BUTTON, NodeKind.PRODUCT, NodeKind.OPTION
_INSTRUCTION: Final = Node(_TEXT, "Instruction:")
_START: Final = (Node(_TEXT, "WebShop"), Node(_TEXT, "Instruction: "))
_BUTTONS: Final = {text: Node(_BUTTON, text) for text in (*(b.value for b in Button), *(s.value for s in SubPage))}
_RATING: Final = Node(_TEXT, f"Rating: {RATING}")


_THANKS: Final = ("Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)")
_NO_DETAILS: Final = ("attrs", "None", "category", "None", "query", "None", "product category", "None")
_ASKED: Final = ("Target", "asin", "options", "attrs", "price upper", "instuction text")
_NO_TARGET: Final = (*_ASKED, "category", "product category", "query", "Goal", "None")


def page_nodes(page: Page, receipt: str = "") -> list[Node]:
    """Return the texts of a page in document order.

    Args:
        page: The page.
        receipt: The chosen options as the last page prints them.
    """
    kind = page.kind
    if kind is PageKind.DONE:
        return _receipt(page, receipt)
    if kind is PageKind.INDEX:
        return [*_START, Node(_TEXT, page.instruction), _BUTTONS[Button.SEARCH]]
    nodes = [_INSTRUCTION, Node(_TEXT, page.instruction), _BUTTONS[Button.BACK]]
    if kind is PageKind.RESULTS:
        nodes.append(Node(_TEXT, results_heading(page)))
        nodes += [_BUTTONS[name] for name in page.buttons()[1:]]
        for product in page.products:
            nodes += card_nodes(product)
        return nodes
    nodes.append(_BUTTONS[Button.PREVIOUS])
    product = page.shown
    if kind is PageKind.ITEM:
        nodes += item_nodes(product)
        nodes += [_BUTTONS[name] for name in page.buttons()[2:]]
    elif page.sub_page is SubPage.DESCRIPTION:
        _add(nodes, product.description)
    elif page.sub_page is SubPage.FEATURES:
        for bullet in product.bullets:
            _add(nodes, f" {bullet}")
    elif page.sub_page is SubPage.ATTRIBUTES:
        for attribute in product.attributes:
            _add(nodes, f" {attribute}")
        for text in (product.category, product.query, product.product_category):
            _add(nodes, f" {text}")
    return nodes


def results_heading(page: Page) -> str:
    """Return the line above a list of results."""
    return f"Page {page.number} (Total results: {page.total})"


def card_nodes(product: Product) -> tuple[Node, ...]:
    """Return the texts of a product in a list of results."""
    found: tuple[Node, ...] | None = product.notes.get(card_nodes)
    if found is None:
        nodes = [Node(_PRODUCT, product.asin)]
        _add(nodes, product.title)
        _add(nodes, product.price_tag)
        found = product.notes[card_nodes] = tuple(nodes)
    return found


def item_nodes(product: Product) -> tuple[Node, ...]:
    """Return the texts of a product's own page, without the buttons around them."""
    found: tuple[Node, ...] | None = product.notes.get(item_nodes)
    if found is None:
        nodes: list[Node] = []
        for axis, values in product.options:
            _add(nodes, axis)
            nodes += [Node(_OPTION, value, axis) for value in values if value]
        _add(nodes, product.title)
        nodes.append(Node(_TEXT, f"Price: {product.price_tag}"))
        nodes.append(_RATING)
        found = product.notes[item_nodes] = tuple(nodes)
    return found


def _add(nodes: list[Node], text: str) -> None:
    """Append a text of the data, unless its node would be dropped: nothing, or blanks with a line break."""
    if not text or (text.isspace() and "\n" in text):
        return
    nodes.append(Node(_TEXT, text))


def _receipt(page: Page, options: str) -> list[Node]:
    """Return the texts of the last page; the text environment gives it no details of the goal."""
    bought = ("Purchased", "asin", page.shown.asin, "options", options)
    score = ("Your score (min 0.0, max 1.0)", str(page.reward), "Reward Details", "None")
    texts = (*_THANKS, *bought, *_NO_DETAILS, *_NO_TARGET, "Reward", *score)
    return [Node(_TEXT, text) for text in texts]

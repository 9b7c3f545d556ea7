"""Observations in text: a page's texts joined, or line by line with markers, or the page's address.

The texts are those of the original (`web_agent_site/envs/web_agent_text_env.py`): what an HTML parser finds on
the page, with `[SEP]` between, or with `[button]` around what can be clicked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from agent_gym.envs.webshop.world.kinds import Button, Compat, PageKind
from agent_gym.envs.webshop.world.pages import (
    Node,
    NodeKind,
    Page,
    card_nodes,
    item_nodes,
    page_nodes,
    results_heading,
)
from agent_gym.envs.webshop.world.product import Product

SEPARATOR: Final = " [SEP] "
BASE_URL: Final = "http://127.0.0.1:3000"
_ESCAPES: Final = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"), ("'", "\\u0027"))


def receipt_options(selected: Mapping[str, str]) -> str:
    """Return the chosen options as the last page prints them: JSON with sorted keys, safe inside markup."""
    text = json.dumps(dict(selected), sort_keys=True)
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def text_without_goal(page: Page) -> str:
    """Return the texts of a page without the instruction and its heading, joined by " [SEP] "."""
    if page.kind is PageKind.RESULTS:
        heading = (Button.BACK.value, results_heading(page), *page.buttons()[1:])
        return SEPARATOR.join((*heading, *[_noted(product, card_nodes) for product in page.products]))
    if page.kind is PageKind.ITEM:
        buttons = page.buttons()
        return SEPARATOR.join((*buttons[:2], _noted(page.shown, item_nodes), *buttons[2:]))
    return SEPARATOR.join([node.text.strip() for node in _without_goal(page)])


def _noted(product: Product, nodes: Callable[[Product], Iterable[Node]]) -> str:
    """Return a part of a page as text, joined once a product: visits show the same products again and again."""
    key = (_noted, nodes)
    found: str | None = product.notes.get(key)
    if found is None:
        found = product.notes[key] = SEPARATOR.join([node.text.strip() for node in nodes(product)])
    return found


def with_goal(page: Page, text: str) -> str:
    """Return the text of `text_without_goal` with the instruction in its place."""
    if page.kind is PageKind.DONE:
        return text
    goal = f"Instruction:{SEPARATOR}{page.instruction.strip()}"
    if page.kind is PageKind.INDEX:
        first, _, rest = text.partition(SEPARATOR)
        return f"{first}{SEPARATOR}{goal}{SEPARATOR}{rest}"
    return f"{goal}{SEPARATOR}{text}"


def state_text(page: Page, text: str) -> str:
    """Return the text of `text_without_goal` with the chosen options, which a browser would show."""
    if page.kind is not PageKind.ITEM or not page.selected:
        return text
    chosen = "; ".join(f"{axis}: {value}" for axis, value in sorted(page.selected.items()))
    return f"{text}{SEPARATOR}Chosen: {chosen}"


def rich_text(page: Page, compat: Compat, *, goal: bool = True) -> str:
    """Return the texts of a page line by line, with markers (observation mode `text_rich`).

    A chosen option value is marked `[clicked button]` and announced at the top. The original looks for the
    quoted value in the JSON of the chosen options, so values that JSON escapes are never marked there;
    `Compat.FIXED` marks them, and only on their own axis. Without `goal`, the instruction is left out.
    """
    chosen = json.dumps(dict(page.selected)) if page.kind is PageKind.ITEM else ""
    lines: list[str] = []
    clicked: list[str] = []
    for kind, text, axis in _nodes(page) if goal else _without_goal(page):
        if kind is NodeKind.TEXT:
            lines.append(text)
        elif kind is NodeKind.BUTTON:
            lines.append(f"[button] {text} [button_]")
        elif kind is NodeKind.PRODUCT:
            mark = "clicked button" if text in page.visited else "button"
            lines.append(f"\n[{mark}] {text} [{mark}_]")
        else:
            if compat is Compat.UPSTREAM:
                marked = f'"{text}"' in chosen
            else:
                marked = page.selected.get(axis) == text
            mark = "clicked button" if marked else "button"
            lines.append(f"  [{mark}] {text} [{mark}_]")
            if marked:
                clicked.append(text)
    announced = [f"You have clicked {value}." for value in reversed(clicked)]
    return "\n".join((*announced, *lines, ""))


def page_url(page: Page, session: str) -> str:
    """Return the address of a page as the original spells it, without any quoting (observation mode `url`)."""
    words = "+".join(page.keywords)
    if page.kind is PageKind.INDEX:
        return f"{BASE_URL}/{session}"
    if page.kind is PageKind.RESULTS:
        return f"{BASE_URL}/search_results/{session}/{words}/{page.number}"
    asin = page.shown.asin
    selected = dict(page.selected)
    if page.kind is PageKind.ITEM:
        return f"{BASE_URL}/item_page/{session}/{asin}/{words}/{page.number}/{json.dumps(selected)}"
    if page.kind is PageKind.SUB_PAGE:
        assert page.sub_page is not None
        place = f"{session}/{asin}/{words}/{page.number}/{page.sub_page.value}"
        return f"{BASE_URL}/item_sub_page/{place}/{selected!r}"
    return f"{BASE_URL}/done/{session}/{asin}/{selected!r}"


def _nodes(page: Page) -> list[Node]:
    return page_nodes(page, receipt_options(page.selected) if page.kind is PageKind.DONE else "")


def _without_goal(page: Page) -> list[Node]:
    nodes = _nodes(page)
    if page.kind is PageKind.INDEX:
        return [nodes[0], *nodes[3:]]
    return nodes if page.kind is PageKind.DONE else nodes[2:]

"""The expert: buys the product that the goal was written for, with the options it asks for.

It knows the goal's product, as the reward does, but acts through the same pages as everyone: it searches with the
instruction, turns pages until the product is listed, opens it, chooses the options and buys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent_gym.envs.webshop.world.actions import clickable
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import Button, PageKind
from agent_gym.envs.webshop.world.pages import PAGE_SIZE
from agent_gym.envs.webshop.world.product import Product
from agent_gym.envs.webshop.world.reward import option_matches_value
from agent_gym.envs.webshop.world.shop import Session, Shop

_LONGEST_QUERY: Final = 600
_CHOICES: Final = 8
"""Values considered for one wanted option; equal ones come first."""


@dataclass(frozen=True)
class Purchase:
    """What to buy and how to find it.

    Attributes:
        product: The product.
        selected: Axis -> value to choose, in page order.
        query: A query that finds it.
    """

    product: Product
    selected: dict[str, str]
    query: str


def plan(shop: Shop, goal: Goal) -> Purchase | None:
    """Return the best purchase of the goal's own product, None when the shop has it not or cannot find it."""
    product = shop.product(goal.asin)
    row = None if product is None else shop.catalog.row(product.asin)
    if product is None or row is None:
        return None
    found = None
    for query in _queries(goal, product):
        hits = shop.hits(tuple(query.split(" ")))
        if row in hits[:PAGE_SIZE]:
            found = query
            break
        if found is None and row in hits:
            found = query
    return None if found is None else Purchase(product, best_options(shop, goal, product), found)


def _queries(goal: Goal, product: Product) -> Iterator[str]:
    """Yield queries, the most natural first."""
    text = goal.instruction_text.partition(", and price lower than")[0]
    options = " ".join(value for _, values in product.options for value in values)
    for query in (
        text,
        f"{' '.join(goal.attributes)} {goal.query}",
        product.title,
        f"{product.title} {options}",
        f"{product.title} {product.bullets[0] if product.bullets else ''}",
        product.index_text(),
    ):
        words = query.lower().replace("[", " ").replace("]", " ").split()
        while words and len(" ".join(words)) > _LONGEST_QUERY:
            words = words[:-1]
        if words:
            yield " ".join(words)


def best_options(shop: Shop, goal: Goal, product: Product) -> dict[str, str]:
    """Return values, one an axis at most, that meet as many of the goal's options as possible."""
    choices = []
    for wanted in goal.options:
        equal = wanted if isinstance(wanted, str) else wanted[1]
        fitting = [
            (axis, value)
            for value, axis in product.axis_of.items()
            if clickable(value, shop.compat) and option_matches_value(wanted, axis, value, goal.kind, shop.reward)
        ]
        fitting.sort(key=lambda pair: (pair[1] != equal, isinstance(wanted, tuple) and pair[0] != wanted[0]))
        choices.append(fitting[:_CHOICES])
    best: dict[str, str] = {}
    most = -1

    def met(selected: dict[str, str]) -> int:
        return sum(any(selected.get(axis) == value for axis, value in fitting) for fitting in choices)

    def extend(place: int, selected: dict[str, str]) -> None:
        nonlocal best, most
        if most == len(choices):
            return
        if place == len(choices):
            count = met(selected)
            if count > most:
                best, most = dict(selected), count
            return
        if any(selected.get(axis) == value for axis, value in choices[place]):
            extend(place + 1, selected)
        for axis, value in choices[place]:
            if axis not in selected:
                extend(place + 1, {**selected, axis: value})
        extend(place + 1, selected)

    extend(0, {})
    order = [axis for axis, _ in product.options]
    return dict(sorted(best.items(), key=lambda pair: order.index(pair[0])))


def next_action(session: Session, purchase: Purchase) -> str:
    """Return the next action of the expert on the session's page."""
    asin = purchase.product.asin
    kind = session.kind
    if kind is PageKind.INDEX:
        return f"search[{purchase.query}]"
    if kind is PageKind.RESULTS:
        hits = session.shop.hits(session.keywords)
        row = session.shop.catalog.row(asin)
        if row not in hits:
            return _click(Button.BACK)
        number = hits.index(row) // PAGE_SIZE + 1
        if number == session.number:
            return f"click[{asin.lower()}]"
        return _click(Button.NEXT if number > session.number else Button.PREVIOUS)
    if kind is PageKind.ITEM:
        assert session.product is not None
        if session.product.asin != asin:
            return _click(Button.PREVIOUS)
        for axis, value in purchase.selected.items():
            if session.selected.get(axis) != value:
                return f"click[{value}]"
        return _click(Button.BUY)
    return _click(Button.PREVIOUS)


def _click(button: Button) -> str:
    return f"click[{button.value.lower()}]"

"""Goals: what an instruction asks for, and the draws that give products a price and goals a price limit.

The original draws both from the process's unseeded generator, so that one goal asks for different limits in
different processes. Here every draw depends on a recorded seed and the product alone: it is the same in every
process and in every part of the catalogue.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent_gym.envs.webshop.world.kinds import GoalKind
from agent_gym.envs.webshop.world.product import Product
from agent_gym.support.errors import DataError

CANONICAL_SEED: Final = 233
"""Seed with which the original shuffles its goals."""
NO_LIMIT: Final = 1_000_000.0
"""Price limit of goals whose instruction names none."""
_LIMITS: Final = tuple(range(10, 1000, 10))
_CANDIDATES: Final = 4


@dataclass(frozen=True)
class Goal:
    """What is asked for.

    Attributes:
        asin: The product that the instruction was written for.
        category: Its department.
        query: Its search query.
        name: Its title.
        product_category: Its path of categories.
        instruction_text: The instruction, with the price limit.
        attributes: Attributes asked for, at least one.
        price_upper: Price limit in dollars.
        options: Option values asked for (human), or pairs of axis and value (synthetic).
        kind: Human or synthetic.
        weight: Weight in the original's draws.
        index: Place in the canonical order, -1 for a goal that is in no list.
    """

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: tuple[str, ...]
    price_upper: float
    options: tuple[str, ...] | tuple[tuple[str, str], ...]
    kind: GoalKind
    weight: float = 1.0
    index: int = -1

    def __deepcopy__(self, memo: dict[int, Any]) -> Goal:
        return self  # read-only

    def to_record(self) -> dict[str, Any]:
        """Return the goal as the original's dict, with `kind` and `canonical_index` beside its keys."""
        options: Any = dict(self.options) if self.kind is GoalKind.SYNTHETIC else list(self.options)  # type: ignore[arg-type]
        return {
            "asin": self.asin,
            "category": self.category,
            "query": self.query,
            "name": self.name,
            "product_category": self.product_category,
            "instruction_text": self.instruction_text,
            "attributes": list(self.attributes),
            "price_upper": self.price_upper,
            "goal_options": options,
            "weight": self.weight,
            "kind": self.kind.value,
            "canonical_index": self.index,
        }

    @classmethod
    def from_record(cls, record: Any) -> Goal:
        """Return the goal of a dict of the original's form.

        Raises:
            DataError: A key is missing or of another type.
        """
        if not isinstance(record, Mapping):
            raise DataError(f"a WebShop goal is a dict as the original makes it, got {type(record).__name__}")
        options = record.get("goal_options")
        try:
            if isinstance(options, Mapping):
                kind = GoalKind.SYNTHETIC
                chosen: Any = tuple((str(axis), str(value)) for axis, value in options.items())
            else:
                kind = GoalKind.HUMAN
                chosen = _texts("goal_options", options)
            goal = cls(
                asin=str(record["asin"]),
                category=str(record["category"]),
                query=str(record["query"]),
                name=str(record["name"]),
                product_category=str(record["product_category"]),
                instruction_text=str(record["instruction_text"]),
                attributes=_texts("attributes", record["attributes"]),
                price_upper=float(record["price_upper"]),
                options=chosen,
                kind=kind,
                weight=float(record.get("weight", 1.0)),
                index=int(record.get("canonical_index", -1)),
            )
        except KeyError as error:
            raise DataError(f"a WebShop goal needs the key {error}; it has {sorted(record)}") from error
        except (TypeError, ValueError) as error:
            raise DataError(f"a WebShop goal is a dict as the original makes it: {error}") from error
        if not goal.attributes:
            raise DataError("a WebShop goal needs at least one attribute, got none")
        return goal


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a list of texts, got {type(values).__name__}")
    return tuple(map(str, values))


def fraction(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts' text only."""
    digest = hashlib.blake2b("\x00".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def draw_price(prices: Sequence[float], asin: str, seed: int) -> float:
    """Return the product's one price for goals and reward: uniform where it has a range."""
    if len(prices) == 1:
        return prices[0]
    low, high = prices
    return low + (high - low) * fraction("price", seed, asin)


def draw_limit(price: float, asin: str, seed: int, number: int | None = None) -> float:
    """Return a goal's price limit: the larger of two draws from the next four multiples of ten.

    Args:
        price: The product's price in dollars.
        asin: The product.
        seed: Seed of the price table.
        number: Number of the human record; None for synthetic goals, which share their product's limit.
    """
    above = _LIMITS[bisect_right(_LIMITS, price) :][:_CANDIDATES]
    if len(above) < 2:
        return NO_LIMIT
    pairs = [larger for place, larger in enumerate(above) for _ in range(place)]  # equally likely
    return float(pairs[int(fraction("limit", seed, asin, number) * len(pairs))])


def limit_text(limit: float) -> str:
    """Return the clause of a price limit, "" where there is none."""
    return "" if limit >= NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def human_goal(product: Product, record: Mapping[str, Any], limit: float, number: int = -1) -> Goal:
    """Return the goal of a record of `items_human_ins.json`."""
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        instruction_text=str(record["instruction"]).strip(".") + limit_text(limit),
        attributes=tuple(map(str, record["instruction_attributes"])),
        price_upper=limit,
        options=tuple(map(str, record["instruction_options"])),
        kind=GoalKind.HUMAN,
        index=number,
    )


def synthetic_count(product: Product) -> int:
    """Return how many synthetic goals a product has: one for each combination of its options."""
    if product.instruction is None:
        return 0
    count = 1
    for _, values in product.options:
        count *= len(values)
    return count


def synthetic_options(product: Product, number: int) -> tuple[tuple[str, str], ...]:
    """Return combination `number` of a product's options, axes sorted, the last axis changing fastest."""
    chosen = []
    for axis, values in sorted(product.options, reverse=True):
        number, place = divmod(number, len(values))
        chosen.append((axis, values[place]))
    return tuple(reversed(chosen))


def synthetic_goal(product: Product, number: int, limit: float, weight: float = 1.0, index: int = -1) -> Goal:
    """Return synthetic goal `number` of a product."""
    assert product.instruction is not None
    options = synthetic_options(product, number)
    named = ", and ".join(f"{axis}: {value}" for axis, value in options)
    clause = f" with {named}" if named else ""
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        instruction_text=product.instruction + clause + limit_text(limit),
        attributes=product.instruction_attributes,
        price_upper=limit,
        options=options,
        kind=GoalKind.SYNTHETIC,
        weight=weight,
        index=index,
    )


def canonical_order(count: int) -> np.ndarray:
    """Return the canonical order of `count` goals: place -> number in catalogue order, int64 [count]."""
    order = array("q", range(count))
    random.Random(CANONICAL_SEED).shuffle(order)
    return np.array(order, dtype=np.int64)

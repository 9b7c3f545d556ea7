"""Seeded catalogues of any size.

A product depends on the specification and its row alone. Rows come in families of look-alikes: the same kind of
product with other attributes, options, prices and brands. A goal is written from its own product, so a perfect
purchase always exists: buy that product with the options named.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from agent_gym.envs.webshop.data.generator_data import (
    AXES,
    DEPARTMENTS,
    OPENINGS,
    SENTENCES,
    SHORT_OPENING,
    SYLLABLES,
    Department,
    Kind,
)
from agent_gym.envs.webshop.data.identifiers import Alternating, Numbered
from agent_gym.envs.webshop.world.product import Product, read_prices
from agent_gym.support.errors import ConfigError
from agent_gym.support.seeding import stable_hash

VERSION: Final = 2
"""Changes when equal specifications give other catalogues."""
_SHORT_VERSION: Final = 3
"""The same for catalogues of short pages only."""
_GOAL_PRODUCTS: Final = 2_500
_PRICED_RANGE: Final = 0.23
_UNPRICED: Final = 0.04


class Detail(StrEnum):
    """How much pages say."""

    FULL = "full"
    """Titles, descriptions and features as long as a small shop's."""
    SHORT = "short"
    """Identifiers of a few characters, titles of kind and attributes, prices in whole dollars, no description: for
    very small models."""


@dataclass(frozen=True)
class ShopSpec:
    """A generated catalogue.

    Attributes:
        products: Number of products.
        seed: Seed of the catalogue.
        distractors: Look-alikes of each product.
        attributes: Attributes of a product; goals ask for up to `asked_attributes` of them.
        asked_attributes: Most attributes that a goal asks for.
        asked_options: Most option axes that a goal names.
        values: Most values of an option axis.
        goals: Human goals of each product that has some.
        kinds: Number of kinds of products in use.
        detail: How much pages say.
    """

    products: int = 1000
    seed: int = 0
    distractors: int = 4
    attributes: int = 5
    asked_attributes: int = 3
    asked_options: int = 2
    values: int = 6
    goals: int = 6
    kinds: int = 50
    detail: Detail = Detail.FULL

    def __post_init__(self) -> None:
        limits = {
            "products": (3, 100_000_000),
            "seed": (0, 2**63),
            "distractors": (0, 1000),
            "attributes": (1, 20),
            "asked_attributes": (1, self.attributes),
            "asked_options": (0, 3),
            "values": (1, 20),
            "goals": (1, 1000),
            "kinds": (1, sum(len(department.kinds) for department in DEPARTMENTS.values())),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ConfigError(f"{name} must be a whole number from {least} to {most:,}, got {value!r}")

    def digest(self) -> str:
        """Return a short text that is equal for equal catalogues."""
        short = (_SHORT_VERSION,) if self.detail is Detail.SHORT else ()
        return stable_hash(VERSION, *short, *sorted(asdict(self).items()))


class CatalogGenerator:
    """Makes the products and human records of a specification.

    Args:
        spec: The specification.
    """

    def __init__(self, spec: ShopSpec) -> None:
        self.spec = spec
        pairs = [(name, kind) for name, department in DEPARTMENTS.items() for kind in department.kinds]
        # Departments take turns, so that few kinds still come from all of them.
        pairs.sort(key=lambda pair: (DEPARTMENTS[pair[0]].kinds.index(pair[1]), list(DEPARTMENTS).index(pair[0])))
        self._kinds = pairs[: spec.kinds]
        self._stride = max(1, spec.products // _GOAL_PRODUCTS)
        self._identifiers = Alternating(spec.products) if spec.detail is Detail.SHORT else Numbered()

    def products(self) -> Iterator[Product]:
        """Yield the products in order."""
        return map(self.product, range(self.spec.products))

    def asin(self, row: int) -> str:
        """Return the identifier of a row."""
        return self._identifiers.asin(row)

    def row(self, asin: str) -> int:
        """Return the row of an identifier of this catalogue."""
        return self._identifiers.row(asin)

    def product(self, row: int) -> Product:
        """Return the product of a row."""
        spec = self.spec
        family, member = divmod(row, spec.distractors + 1)
        shared = random.Random(f"webshop/{VERSION}/{spec.seed}/family/{family}")
        name, kind = self._kinds[shared.randrange(len(self._kinds))]
        department = DEPARTMENTS[name]
        base = shared.sample(department.attributes, spec.attributes)
        own = random.Random(f"webshop/{VERSION}/{spec.seed}/{family}/{member}")
        attributes = self._vary(base, department, own)
        options = tuple((axis, self._values(axis, own)) for axis in kind.axes[: max(1, spec.asked_options + 1)])
        use = own.choice(kind.uses)
        brand = "".join(own.choices(SYLLABLES, k=own.randint(2, 3))).capitalize()
        tag, prices = read_prices(_pricing(kind, own, cents=spec.detail is Detail.FULL))
        asked = own.sample(attributes, min(len(attributes), own.randint(1, spec.asked_attributes)))
        description, bullets = self._texts(kind, attributes, use, own)
        return Product(
            asin=self.asin(row),
            title=self._title(brand, kind, attributes, use, own),
            description=description,
            bullets=bullets,
            category=name,
            query=kind.query,
            product_category=f"{department.path} › {kind.path}",
            price_tag=tag,
            prices=prices,
            options=options,
            attributes=tuple(attributes),
            instruction=f"Find me {', '.join(asked)} {kind.query}",
            instruction_attributes=tuple(asked),
        )

    def _vary(self, base: Sequence[str], department: Department, own: random.Random) -> list[str]:
        """Return a look-alike's attributes: some of the family's, the rest others."""
        kept = own.sample(base, own.randint((len(base) + 1) // 2, len(base)))
        others = [attribute for attribute in department.attributes if attribute not in base]
        return [*kept, *own.sample(others, len(base) - len(kept))]

    def _values(self, axis: str, own: random.Random) -> tuple[str, ...]:
        values = AXES[axis]
        chosen = own.sample(
            range(len(values)), min(len(values), own.randint(min(2, self.spec.values), self.spec.values))
        )
        return tuple(values[place] for place in sorted(chosen))

    def _title(self, brand: str, kind: Kind, attributes: Sequence[str], use: str, own: random.Random) -> str:
        noun = kind.noun.title()
        if self.spec.detail is Detail.SHORT:
            return f"{noun} {', '.join(attributes)}"
        shown = [attribute.title() for attribute in attributes[:3]]
        model = f"{own.randint(10, 99)}{own.choice('ABCDEFGH')}"
        return f"{brand} {shown[0]} {noun} for {use.title()}, {', '.join(shown[1:] or ['New'])} - {model}"

    def _texts(
        self, kind: Kind, attributes: Sequence[str], use: str, own: random.Random
    ) -> tuple[str, tuple[str, ...]]:
        """Return description and features; together the features name every attribute."""
        if self.spec.detail is Detail.SHORT:
            return "", tuple(attributes)

        def sentence(attribute: str) -> str:
            text = own.choice(SENTENCES)
            return text.format(
                noun=kind.noun, use=use, attribute=attribute, axis=own.choice(kind.axes)
            ).capitalize()

        description = " ".join(sentence(own.choice(attributes)) for _ in range(own.randint(2, 5)))
        bullets = tuple(f"{attribute.upper()}: {sentence(attribute)}" for attribute in attributes)
        return description, bullets

    def nouns(self, product: Product) -> tuple[str, ...]:
        """Return the nouns of a product's title."""
        kind = next(kind for _, kind in self._kinds if kind.query == product.query)
        known = {*kind.noun.split(), *(word for use in kind.uses for word in use.split())}
        words = product.title.lower().replace(",", " ").split()
        return tuple(word for place, word in enumerate(words) if place == 0 or word in known)

    def human(self, asin: str) -> list[dict[str, Any]]:
        """Return the human records of a product, in the form of `items_human_ins.json`."""
        row = self.row(asin)
        if row % self._stride:
            return []
        product, spec = self.product(row), self.spec
        kind = next(kind for _, kind in self._kinds if kind.query == product.query)
        rng = random.Random(f"webshop/{VERSION}/{spec.seed}/human/{row}")
        records = []
        for _ in range(spec.goals):
            asked = rng.sample(
                product.attributes, rng.randint(1, min(len(product.attributes), spec.asked_attributes))
            )
            most = min(len(product.options), spec.asked_options)
            axes = sorted(rng.sample(range(len(product.options)), rng.randint(min(1, most), most)))
            chosen = {product.options[axis][0]: rng.choice(product.options[axis][1]) for axis in axes}
            opening = SHORT_OPENING if spec.detail is Detail.SHORT else rng.choice(OPENINGS)
            text = opening.format(
                attributes=", ".join(asked), noun=kind.noun, query=kind.query, options=_options_clause(chosen)
            )
            records.append(
                {
                    "asin": asin,
                    "instruction": text,
                    "instruction_attributes": asked,
                    "instruction_options": list(chosen.values()),
                }
            )
        return records


def _pricing(kind: Kind, own: random.Random, *, cents: bool) -> str:
    """Return a raw price text: like the real catalogue's (one price, a range or none), or whole dollars."""
    low, high = kind.prices
    first = own.uniform(low, high)
    draw = own.random()
    if not cents:
        return f"${first:.0f}"
    if draw < _UNPRICED:
        return ""
    if draw < _UNPRICED + _PRICED_RANGE:
        return f"${first:.2f}${first * own.uniform(1.1, 1.6):.2f}"
    return f"${first:.2f}"


def _options_clause(chosen: Mapping[str, str]) -> str:
    clauses = []
    for axis, value in chosen.items():
        if axis == "color":
            clauses.append(f" in {value}")
        elif "size" in axis:
            clauses.append(f", size {value}")
        else:
            clauses.append(f", with {axis} {value}")
    return "".join(clauses)

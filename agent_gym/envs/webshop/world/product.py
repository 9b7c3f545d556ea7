"""A product as the shop shows it, and making one from a raw record of the official files.

Cleaning follows the original (WebShop, `web_agent_site/engine/engine.py`, `load_products`): which fields are
kept, how prices are read and how option values are spelt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from agent_gym.support.errors import DataError

MAX_ASIN: Final = 10
"""Characters; records with a longer identifier are left out."""
RATING: Final = "N.A."
"""What is shown as rating: the original never loads its reviews."""
NO_ATTRIBUTE: Final = "DUMMY_ATTR"
"""The only attribute of a product that the attribute file lacks."""
DEFAULT_PRICE: Final = 100.0
"""Price, in dollars, of a product without one."""


@dataclass(frozen=True)
class Product:
    """One product.

    Attributes:
        asin: Identifier, at most 10 characters.
        title: Name.
        description: Full description, may be empty.
        bullets: Features.
        category: One of the five departments ("fashion", "beauty", ...).
        query: The search that the product was collected with, in lower case.
        product_category: Path of categories, parts separated by "›".
        price_tag: Price as shown: "$12.5" or "$10.0 to $19.99".
        prices: The price, or the lowest and highest one, in dollars.
        options: Axes with their values, in lower case, in the record's order.
        images: Addresses of pictures, the main one first.
        option_images: Value -> address of its picture or None.
        attributes: What the reward calls attributes.
        instruction: Base of the synthetic instructions, None where there are none.
        instruction_attributes: Attributes that the synthetic instructions ask for.
    """

    asin: str
    title: str
    description: str = ""
    bullets: tuple[str, ...] = ()
    category: str = ""
    query: str = ""
    product_category: str = ""
    price_tag: str = "$100.0"
    prices: tuple[float, ...] = (DEFAULT_PRICE,)
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    images: tuple[str, ...] = ()
    option_images: Mapping[str, str | None] | None = None
    attributes: tuple[str, ...] = ()
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()

    @cached_property
    def axis_of(self) -> Mapping[str, str]:
        """Value -> axis that a click on it sets; of equal values the last axis counts, as in the original."""
        return {value: axis for axis, values in self.options for value in values}

    @cached_property
    def values(self) -> tuple[str, ...]:
        """All option values in page order, each once."""
        return tuple(self.axis_of)

    @cached_property
    def searched_title(self) -> str:
        """The title in lower case."""
        return self.title.lower()

    @cached_property
    def searched_bullets(self) -> str:
        """The features as one text in lower case."""
        return " ".join(self.bullets).lower()

    @cached_property
    def searched_description(self) -> str:
        """The description in lower case."""
        return self.description.lower()

    @cached_property
    def category_parts(self) -> frozenset[str]:
        """The parts of `product_category`."""
        return category_parts(self.product_category)

    @cached_property
    def notes(self) -> dict[Any, Any]:
        """What pages and texts worked out of this product once, by their own keys."""
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Product:
        return self  # read-only

    def index_text(self) -> str:
        """Return the text that the search engine indexes: title, description, first feature and options."""
        options = ", and ".join(f"{axis}: {', '.join(values)}" for axis, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()

    def to_row(self) -> list[Any]:
        """Return the product as JSON-able fields in a fixed order."""
        images = None if self.option_images is None else dict(self.option_images)
        return [
            self.asin,
            self.title,
            self.description,
            list(self.bullets),
            self.category,
            self.query,
            self.product_category,
            self.price_tag,
            list(self.prices),
            [[axis, list(values)] for axis, values in self.options],
            list(self.images),
            images,
            list(self.attributes),
            self.instruction,
            list(self.instruction_attributes),
        ]

    @classmethod
    def from_row(cls, row: list[Any]) -> Product:
        """Return the product of a row that `to_row` made."""
        bullets, prices, options, images, attributes, asked = row[3], row[8], row[9], row[10], row[12], row[14]
        return cls(
            asin=row[0],
            title=row[1],
            description=row[2],
            bullets=tuple(bullets),
            category=row[4],
            query=row[5],
            product_category=row[6],
            price_tag=row[7],
            prices=tuple(prices),
            options=tuple((axis, tuple(values)) for axis, values in options),
            images=tuple(images),
            option_images=row[11],
            attributes=tuple(attributes),
            instruction=row[13],
            instruction_attributes=tuple(asked),
        )


def category_parts(path: str) -> frozenset[str]:
    """Return the parts of a category path."""
    return frozenset(part.strip() for part in path.split("›"))


def clean_value(value: str) -> str:
    """Return an option value as pages show it."""
    return value.strip().replace("/", " | ").lower()


def read_prices(pricing: str | None) -> tuple[str, tuple[float, ...]]:
    """Return the price tag and the one or two prices of a raw price text.

    Raises:
        DataError: The text holds no price after a dollar sign.
    """
    if not pricing:
        return f"${DEFAULT_PRICE}", (DEFAULT_PRICE,)
    pieces = ("".join(c for c in piece if c in "0123456789.") for piece in pricing.split("$")[1:])
    try:
        prices = tuple(map(float, pieces))
    except ValueError:
        prices = ()
    if not prices:
        raise DataError(f"a price looks like '$12.99' or '$10.00$19.99', got {pricing!r}")
    if len(prices) == 1:
        return f"${prices[0]}", prices
    return f"${prices[0]} to ${prices[1]}", prices[:2]


def usable(asin: Any) -> bool:
    """Return whether a record with this identifier is kept."""
    return isinstance(asin, str) and asin != "nan" and 0 < len(asin) <= MAX_ASIN


def clean(record: Mapping[str, Any], attributes: Mapping[str, Any] | None = None) -> Product:
    """Return the product of a raw record.

    Args:
        record: Raw record of `items_shuffle.json`.
        attributes: The product's entry of `items_ins_v2.json`, None where it has none.

    Raises:
        DataError: A field is missing or of another type; the message names product and field.
    """
    asin = str(record.get("asin"))
    try:
        tag, prices = read_prices(record.get("pricing"))
        bullets = record["small_description"]
        options, images = _options(record.get("customization_options"))
        entry = attributes or {}
        known = entry.get("attributes")
        return Product(
            asin=asin,
            title=_text(record, "name"),
            description=_text(record, "full_description"),
            bullets=tuple(map(str, bullets)) if isinstance(bullets, list) else (str(bullets or ""),),
            category=_text(record, "category"),
            query=_text(record, "query").lower().strip(),
            product_category=_text(record, "product_category"),
            price_tag=tag,
            prices=prices,
            options=options,
            images=tuple(str(image) for image in record.get("images") or ()),
            option_images=images or None,
            attributes=(NO_ATTRIBUTE,) if known is None else _texts(known),
            instruction=entry.get("instruction"),
            instruction_attributes=_texts(entry.get("instruction_attributes") or ()),
        )
    except (KeyError, TypeError, AttributeError, DataError) as error:
        what = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"product {asin!r} is not in the official format: {what}") from error


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record[key]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{key} is a {type(value).__name__}, expected text")
    return value


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _options(
    raw: Mapping[str, Iterable[Mapping[str, Any]] | None] | None,
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], dict[str, str | None]]:
    options: dict[str, tuple[str, ...]] = {}
    images: dict[str, str | None] = {}
    for axis, entries in (raw or {}).items():
        if entries is None:
            continue
        values = []
        for entry in entries:
            value = clean_value(str(entry["value"]))
            values.append(value)
            images[value] = entry.get("image")
        options[axis.lower()] = tuple(values)
    return tuple(options.items()), images

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.webshop.world.product import Product, clean, read_prices, usable
from agent_gym.support.errors import DataError
from tests.data import read_json

RAW: dict[str, Any] = {
    "asin": "B000000001",
    "name": "Lamp",
    "full_description": "",
    "pricing": "$10.00$19.99",
    "images": ["main.jpg"],
    "small_description": ["Bright ", "Tall"],
    "customization_options": {
        "Color": [{"value": " Blue/Gray ", "image": "blue.jpg"}, {"value": "RED", "image": None}],
        "Size": None,
    },
    "category": "garden",
    "query": " Floor Lamps ",
    "product_category": "Home › Lamps › Floor Lamps",
}


@pytest.mark.parametrize(
    ("text", "tag", "prices"),
    [
        ("", "$100.0", (100.0,)),
        (None, "$100.0", (100.0,)),
        ("$79.90", "$79.9", (79.9,)),
        ("$1,299.00", "$1299.0", (1299.0,)),
        ("from $5.00 - $7.50", "$5.0 to $7.5", (5.0, 7.5)),
        ("$1.00$2.00$3.00", "$1.0 to $2.0", (1.0, 2.0)),
    ],
)
def test_prices_are_read_as_upstream(text: str | None, tag: str, prices: tuple[float, ...]) -> None:
    assert read_prices(text) == (tag, prices)


@pytest.mark.parametrize("text", ["12.99", "$", "$..", "free"])
def test_a_price_without_a_number_is_named(text: str) -> None:
    with pytest.raises(DataError, match="a price looks like"):
        read_prices(text)


def test_fields_are_cleaned_as_upstream() -> None:
    product = clean(
        RAW, {"attributes": ["easy assembly"], "instruction": "Find me", "instruction_attributes": ["a"]}
    )
    assert product.options == (("color", ("blue | gray", "red")),)
    assert product.option_images == {"blue | gray": "blue.jpg", "red": None}
    assert product.query == "floor lamps"
    assert product.bullets == ("Bright ", "Tall")
    assert product.attributes == ("easy assembly",)
    assert product.category_parts == {"Home", "Lamps", "Floor Lamps"}
    assert product.index_text() == "lamp  bright  color: blue | gray, red"


def test_a_product_without_attributes_has_the_placeholder_and_an_empty_list_stays_empty() -> None:
    assert clean(RAW).attributes == ("DUMMY_ATTR",)
    assert clean(RAW, {"attributes": []}).attributes == ()


def test_a_single_feature_may_be_text() -> None:
    assert clean({**RAW, "small_description": "only one"}).bullets == ("only one",)


@pytest.mark.parametrize(
    ("asin", "kept"), [("nan", False), ("B0000000011", False), ("B000000001", True), (5, False)]
)
def test_records_without_a_short_identifier_are_left_out(asin: Any, kept: bool) -> None:
    assert usable(asin) is kept


def test_a_malformed_record_is_named() -> None:
    with pytest.raises(DataError, match=r"'B000000001'.*'name'"):
        clean({key: value for key, value in RAW.items() if key != "name"})


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.text(max_size=5), st.lists(st.text(max_size=8), max_size=4), max_size=3),
    st.text(max_size=20),
)
def test_rows_keep_every_field(options: dict[str, list[str]], text: str) -> None:
    product = clean(
        {
            **RAW,
            "full_description": text,
            "customization_options": {axis: [{"value": v} for v in values] for axis, values in options.items()},
        }
    )
    assert Product.from_row(product.to_row()) == product


def test_the_real_products_load() -> None:
    attributes = read_json("webshop/items_ins_v2_1000.json")
    products = [
        clean(record, attributes.get(record["asin"])) for record in read_json("webshop/real_products_394.json.xz")
    ]
    assert len({product.asin for product in products}) == 394
    assert sum(product.instruction is not None for product in products) == 216
    assert all(product.title and product.price_tag.startswith("$") for product in products)

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.webshop.data.generator import CatalogGenerator, Detail, ShopSpec
from agent_gym.envs.webshop.data.generator_data import AXES
from agent_gym.envs.webshop.world.actions import clickable
from agent_gym.envs.webshop.world.goals import draw_limit, draw_price, human_goal, synthetic_count, synthetic_goal
from agent_gym.envs.webshop.world.kinds import Compat, GoalKind, RewardKind
from agent_gym.envs.webshop.world.nouns import NounOrigin, Nouns, heuristic_nouns
from agent_gym.envs.webshop.world.product import MAX_ASIN, Product, clean_value
from agent_gym.envs.webshop.world.reward import judge, option_matches_value
from agent_gym.support.errors import ConfigError

SPECS = st.builds(
    ShopSpec,
    products=st.integers(3, 2_000_000),
    seed=st.integers(0, 5),
    distractors=st.integers(0, 9),
    attributes=st.just(6),
    asked_attributes=st.integers(1, 6),
    asked_options=st.integers(0, 3),
    values=st.integers(1, 12),
    kinds=st.integers(1, 50),
    detail=st.sampled_from(Detail),
)


@pytest.mark.parametrize(("axis", "values"), AXES.items())
def test_every_value_of_every_axis_can_be_met(axis: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert value == clean_value(value)
        for kind in RewardKind:
            assert option_matches_value(value, axis, value, GoalKind.HUMAN, kind)
            assert option_matches_value((axis, value), axis, value, GoalKind.SYNTHETIC, kind)


@settings(max_examples=40, deadline=None)
@given(SPECS, st.integers(0, 2_000_000), st.sampled_from(RewardKind))
def test_every_goal_has_a_perfect_purchase(spec: ShopSpec, pick: int, kind: RewardKind) -> None:
    made = CatalogGenerator(spec)
    stride = max(1, spec.products // 2_500)
    product = made.product(pick % spec.products // stride * stride)
    price = draw_price(product.prices, product.asin, 0)
    nouns = Nouns({product.asin: (product.title, made.nouns(product))}.get, heuristic_nouns, NounOrigin.HEURISTIC)
    records = made.human(product.asin)
    assert len(records) == spec.goals
    goals = [human_goal(product, record, draw_limit(price, product.asin, 0, n)) for n, record in enumerate(records)]
    for number in range(0, synthetic_count(product), 3):
        goals.append(synthetic_goal(product, number, draw_limit(price, product.asin, 0)))
    for goal in goals:
        wanted = [option if isinstance(option, str) else option[1] for option in goal.options]
        chosen = {axis: value for axis, values in product.options for value in values if value in wanted}
        assert judge(goal, product, price, chosen, nouns, kind=kind).score == 1.0
        assert len(goal.attributes) <= spec.asked_attributes
        assert all(clickable(value, Compat.UPSTREAM) for value in wanted)


def test_a_product_depends_on_its_row_and_the_specification_only() -> None:
    spec = ShopSpec(products=500, seed=3)
    forwards = list(CatalogGenerator(spec).products())
    made = CatalogGenerator(ShopSpec(products=500, seed=3))
    assert [made.product(row) for row in (499, 7, 250)] == [forwards[row] for row in (499, 7, 250)]
    assert CatalogGenerator(ShopSpec(products=500, seed=4)).product(7) != forwards[7]
    assert [made.row(product.asin) for product in forwards] == list(range(500))


def test_families_are_look_alikes() -> None:
    made = CatalogGenerator(ShopSpec(distractors=4))
    for family in range(20):
        members = [made.product(row) for row in range(5 * family, 5 * family + 5)]
        assert len({member.query for member in members}) == 1
        assert len({member.title for member in members}) == 5
        assert all(set(members[0].attributes) & set(member.attributes) for member in members)


def test_prices_are_as_varied_as_in_the_real_catalogue() -> None:
    products = list(CatalogGenerator(ShopSpec(products=2000)).products())
    ranges = sum(len(product.prices) == 2 for product in products) / 2000
    assert 0.19 < ranges < 0.27
    assert any(product.price_tag == "$100.0" for product in products)


def test_short_pages_are_short() -> None:
    made = CatalogGenerator(ShopSpec(detail=Detail.SHORT, attributes=2, asked_attributes=1))
    product: Product = made.product(1)
    assert len(product.title) < 60
    assert product.description == ""
    assert product.prices == (float(int(product.prices[0])),)
    assert product.title.lower().startswith(made.nouns(product)[0]), "the kind of product, not a brand"


@pytest.mark.parametrize("detail", Detail)
@given(products=st.integers(3, 100_000_000), data=st.data())
def test_an_identifier_tells_its_row(detail: Detail, products: int, data: st.DataObject) -> None:
    made = CatalogGenerator(ShopSpec(products=products, detail=detail))
    row, other = (data.draw(st.integers(0, products - 1)) for _ in range(2))
    assert made.row(made.asin(row)) == row
    assert (made.asin(row) == made.asin(other)) == (row == other)
    assert len(made.asin(row)) <= MAX_ASIN


@pytest.mark.parametrize(
    ("name", "value"), [("products", 2), ("distractors", -1), ("asked_attributes", 6), ("values", 0), ("seed", 1.5)]
)
def test_numbers_out_of_range_are_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a whole number from"):
        ShopSpec(**{name: value})  # type: ignore[arg-type]

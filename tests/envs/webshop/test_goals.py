from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from agent_gym.envs.webshop.data.goal_table import GoalTable
from agent_gym.envs.webshop.data.official import read_json_file
from agent_gym.envs.webshop.data.splits import PUBLISHED_GOALS, Split
from agent_gym.envs.webshop.world.goals import (
    NO_LIMIT,
    Goal,
    canonical_order,
    draw_limit,
    draw_price,
    limit_text,
    synthetic_count,
    synthetic_options,
)
from agent_gym.envs.webshop.world.kinds import GoalKind
from agent_gym.envs.webshop.world.product import Product
from agent_gym.support.errors import DataError
from tests.data import shared_data

LAMP = Product(
    "B000000001", "Lamp", options=(("size", ("s", "m")), ("color", ("red", "blue", "red"))), instruction=""
)


@pytest.mark.parametrize(
    ("count", "start"),
    [
        (12087, [8655, 10304, 6940, 2750, 3667, 2144, 3577, 9548, 8911, 10662]),
        (6910, [3963, 2638, 2193, 1856, 4358, 6149, 2504, 3220, 705, 1072]),
    ],
)
def test_the_canonical_order_is_upstreams_shuffle(count: int, start: list[int]) -> None:
    order = canonical_order(count)
    assert order[:10].tolist() == start
    assert sorted(order.tolist()) == list(range(count))


def test_the_canonical_instructions_load_and_have_the_published_splits() -> None:
    texts = read_json_file(shared_data("webshop/human_goals.json.xz"))
    assert len(texts) == PUBLISHED_GOALS == 12_087
    assert len(set(texts)) == 11_563
    assert texts[0] == "i need a long clip-in hair extension which is natural looking"
    table = GoalTable.make(GoalKind.HUMAN, range(len(texts)), [1] * len(texts))
    parts = {split: list(table.in_split(split)) for split in Split}
    assert parts[Split.TEST] == list(range(500))
    assert parts[Split.VALID] == list(range(500, 1500))
    assert parts[Split.TRAIN] == list(range(1500, 12_087))


def test_other_goals_are_split_by_product_and_no_goal_is_lost() -> None:
    counts = [1 + row % 40 for row in range(415)]
    table = GoalTable.make(GoalKind.SYNTHETIC, range(0, 830, 2), counts)
    owners = {split: {table.at(place)[1] for place in table.in_split(split)} for split in Split}
    assert not owners[Split.TRAIN] & owners[Split.TEST]
    assert not owners[Split.TRAIN] & owners[Split.VALID]
    assert not owners[Split.VALID] & owners[Split.TEST]
    assert {split: len(rows) for split, rows in owners.items()} == {"test": 17, "valid": 34, "train": 364}
    places = sorted(place for split in Split for place in table.in_split(split))
    assert places == list(table.in_split("all")) == list(range(sum(counts)))


def test_places_and_numbers_are_inverse() -> None:
    table = GoalTable.make(GoalKind.SYNTHETIC, [3, 5, 9], [2, 1, 4])
    seen = set()
    for place in range(7):
        _, row, number = table.at(place)
        assert table.place(row, number) == place
        seen.add((row, number))
    assert seen == {(3, 0), (3, 1), (5, 0), (9, 0), (9, 1), (9, 2), (9, 3)}
    assert table.place(4, 0) is table.place(3, 2) is table.place(3, -1) is table.place(100, 0) is None


def test_price_limits_follow_upstreams_distribution() -> None:
    limits = Counter(draw_limit(17.0, f"B{n:09d}", 0) for n in range(6000))
    assert set(limits) == {30.0, 40.0, 50.0}
    for limit, share in ((30.0, 1 / 6), (40.0, 1 / 3), (50.0, 1 / 2)):
        assert limits[limit] / 6000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(("price", "limit"), [(979.0, 990.0), (980.0, NO_LIMIT), (2000.0, NO_LIMIT)])
def test_expensive_products_have_one_limit_or_none(price: float, limit: float) -> None:
    assert draw_limit(price, "B000000001", 3) == limit


def test_limits_are_part_of_the_instruction_unless_there_is_none() -> None:
    assert limit_text(40.0) == ", and price lower than 40.00 dollars"
    assert limit_text(NO_LIMIT) == ""


def test_prices_depend_on_seed_and_product_only() -> None:
    assert draw_price((5.0,), "x", 1) == 5.0
    drawn = [draw_price((5.0, 9.0), f"B{n}", 1) for n in range(1000)]
    assert all(5.0 <= price <= 9.0 for price in drawn)
    assert np.mean(drawn) == pytest.approx(7.0, abs=0.15)
    assert drawn == [draw_price((5.0, 9.0), f"B{n}", 1) for n in range(1000)]
    assert drawn != [draw_price((5.0, 9.0), f"B{n}", 2) for n in range(1000)]


def test_synthetic_goals_are_the_combinations_of_sorted_axes() -> None:
    assert synthetic_count(LAMP) == 6
    combinations = [dict(synthetic_options(LAMP, number)) for number in range(6)]
    assert [list(found.values()) for found in combinations] == [
        ["red", "s"],
        ["red", "m"],
        ["blue", "s"],
        ["blue", "m"],
        ["red", "s"],
        ["red", "m"],
    ]
    assert synthetic_count(Product("B1", "x", instruction="")) == 1
    assert synthetic_count(Product("B1", "x")) == 0


def test_a_goal_survives_its_record() -> None:
    for options, kind in ((("red", "m"), GoalKind.HUMAN), ((("color", "red"),), GoalKind.SYNTHETIC)):
        goal = Goal("B1", "c", "q", "n", "p", "text", ("a",), 20.0, options, kind, 0.5, 7)
        assert Goal.from_record(goal.to_record()) == goal


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"asin": None}, "needs the key 'asin'"),
        ({"attributes": "red"}, "attributes must be a list"),
        ({"attributes": []}, "at least one attribute"),
        ({"price_upper": "cheap"}, "cheap"),
    ],
)
def test_a_malformed_goal_is_named(change: dict[str, object], reason: str) -> None:
    record = Goal("B1", "c", "q", "n", "p", "text", ("a",), 20.0, (), GoalKind.HUMAN).to_record()
    record = {key: value for key, value in {**record, **change}.items() if value is not None}
    with pytest.raises(DataError, match=reason):
        Goal.from_record(record)

"""Names count down within a class, in the order of the ids."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agent_gym.envs.alfworld.world.names import display_names, listing

IDS = st.lists(
    st.builds(
        "{}_bar_{}{}{}".format,
        st.sampled_from(["mug", "sink", "bathtub"]),
        st.sampled_from(["_plus_", "_minus_"]),
        st.integers(0, 30),
        st.sampled_from(["", "_bar_sinkbasin"]),
    )
)


def test_lists_have_an_article_and_an_odd_comma() -> None:
    assert listing([]) == "nothing"
    assert listing(["a mug 1"]) == "a mug 1"
    assert listing(["a mug 2", "a mug 1"]) == "a mug 2, and a mug 1"
    assert listing(["a apple 1", "a mug 2", "a mug 1"]) == "a apple 1, a mug 2, and a mug 1"


def test_minus_sorts_before_plus_and_digits_before_underscore() -> None:
    names = display_names(["mug_bar__plus_1", "mug_bar__minus_9", "mug_bar_5"])
    assert names == {"mug_bar_5": "mug 3", "mug_bar__minus_9": "mug 2", "mug_bar__plus_1": "mug 1"}


def test_basins_are_named_after_sink_or_bathtub() -> None:
    names = display_names(["sink_bar_1_bar_sinkbasin", "bathtub_bar_1_bar_bathtubbasin", "bathtub_bar_2"])
    assert set(names.values()) == {"sinkbasin 1", "bathtubbasin 1", "bathtub 1"}


def test_ids_without_coordinates_keep_their_text_and_a_blank() -> None:
    assert display_names(["agent1"]) == {"agent1": "agent1 "}


@given(ids=IDS, seed=st.none() | st.integers(0, 99))
def test_numbers_of_a_class_are_one_to_n(ids: list[str], seed: int | None) -> None:
    names = display_names(set(ids), None if seed is None else random.Random(seed))
    numbers: dict[str, list[int]] = {}
    for name in names.values():
        kind, _, number = name.rpartition(" ")
        numbers.setdefault(kind, []).append(int(number))
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in numbers.values())


def test_shuffling_leaves_the_global_generator_alone() -> None:
    before = random.getstate()
    display_names([f"mug_bar_{n}" for n in range(9)], random.Random(1))
    assert random.getstate() == before

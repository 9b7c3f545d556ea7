from __future__ import annotations

import time
from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError, DataError
from trainers.update.anchors import MAX_COMPARED_CHARS, anchor_stats, step_groups


def similar(first: str, other: str, threshold: float) -> bool:
    groups = step_groups(np.zeros(2, dtype=int), [first, other], threshold)
    return bool(groups[0] == groups[1])


def ratio(first: str, other: str) -> float:
    return SequenceMatcher(None, first, other, autojunk=False).ratio()


def test_equal_anchors_share_a_group_only_inside_their_task_group() -> None:
    groups = step_groups(np.array([0, 0, 1, 0, 1]), ["a", "b", "a", "a", "a"])
    assert groups.tolist() == [0, 1, 2, 0, 2]


def test_exact_grouping_keeps_near_texts_apart() -> None:
    assert step_groups(np.zeros(2, dtype=int), ["page 1 of 9", "page 2 of 9"]).tolist() == [0, 1]


def test_near_texts_join_the_first_member_that_is_similar_enough() -> None:
    texts = ["a red chair, 10 dollars", "a red chair, 12 dollars", "a blue lamp", "a red chair, 15 dollars"]
    assert step_groups(np.zeros(4, dtype=int), texts, 0.9).tolist() == [0, 0, 1, 0]


def test_similarity_is_to_the_first_member_not_to_the_last() -> None:
    chain = ["aaaaaaaaaa", "aaaaaaaaab", "aaaaaaaabb"]
    assert ratio(chain[1], chain[2]) >= 0.9 > ratio(chain[0], chain[2])
    assert step_groups(np.zeros(3, dtype=int), chain, 0.9).tolist() == [0, 0, 1]


@given(
    st.text(alphabet="abc ", max_size=40),
    st.text(alphabet="abc ", max_size=40),
    st.sampled_from([0.5, 0.7, 0.9, 0.97, 1.0]),
)
def test_the_cheap_bounds_never_change_the_difflib_decision(first: str, other: str, threshold: float) -> None:
    assert similar(first, other, threshold) == (ratio(first, other) >= threshold)


@given(st.lists(st.text(alphabet="ab", max_size=6), max_size=25))
def test_greedy_clusters_equal_the_plain_definition(texts: list[str]) -> None:
    firsts: list[str] = []
    expected = []
    for text in texts:
        hits = [number for number, first in enumerate(firsts) if ratio(first, text) >= 0.8]
        if not hits:
            hits = [len(firsts)]
            firsts.append(text)
        expected.append(hits[0])
    assert step_groups(np.zeros(len(texts), dtype=int), texts, 0.8).tolist() == expected


def test_long_pages_are_compared_on_their_head_and_their_length() -> None:
    head = "".join(chr(97 + (i * i) % 23) for i in range(MAX_COMPARED_CHARS))
    assert similar(head + "x" * 500, head + "y" * 500, 0.9)
    assert not similar(head, head + "y" * 500, 0.9)


def test_many_long_pages_are_grouped_in_bounded_time() -> None:
    rng = np.random.default_rng(0)
    pages = ["".join(chr(97 + c) for c in rng.integers(0, 20, 3000)) for _ in range(60)]
    start = time.perf_counter()
    groups = step_groups(np.zeros(60, dtype=int), pages, 0.9)
    assert time.perf_counter() - start < 60.0
    assert len(set(groups.tolist())) == 60


def test_sizes_and_singletons() -> None:
    stats = anchor_stats(np.array([0, 1, 0, 2, 0, -1]))
    assert stats.mean_size == pytest.approx(5 / 3)
    assert stats.singleton_share == pytest.approx(2 / 5)
    assert anchor_stats(np.array([], dtype=int)).mean_size == 0.0


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError, match="2 anchors for 1 rows"):
        step_groups(np.zeros(1, dtype=int), ["a", "b"])
    with pytest.raises(ConfigError, match="anchor similarity"):
        step_groups(np.zeros(1, dtype=int), ["a"], 0.0)

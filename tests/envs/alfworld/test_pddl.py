"""Reading problems: what is refused, and that nothing else happens to bad text."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.alfworld.world.pddl import MAX_PROBLEM_CHARS, parse_expressions, parse_problem
from agent_gym.support.errors import DataError
from tests.envs.alfworld.tiny import problem

GOOD = problem()


def test_problem_is_read_lower_cased_with_types_and_facts_in_order() -> None:
    parsed = parse_problem("; a comment (\n" + GOOD)
    assert parsed.name == "tiny"
    assert parsed.types["mug_bar_a"] == "object"
    assert parsed.facts[0] == ("atlocation", "agent1", "loc_bar_0")
    assert ("incontainer", "mug_bar_a", "cabinet_bar_a") not in parsed.facts
    assert ("inreceptacle", "mug_bar_a", "cabinet_bar_a") in parsed.facts


def test_costs_and_metric_are_ignored() -> None:
    text = GOOD.replace("(:init ", "(:init (= (total-cost) 0) ")[:-1] + "(:metric minimize (total-cost)))"
    assert parse_problem(text).facts == parse_problem(GOOD).facts


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (GOOD[:-1], "unclosed"),
        (GOOD[: len(GOOD) // 2], "truncated"),
        (GOOD + ")", "never opened"),
        (GOOD + GOOD, "one \\(define"),
        ("", "one \\(define"),
        ("hello", "one \\(define"),
        (GOOD.replace("(:init", "(:start"), "no ':init' section"),
        (GOOD.replace(":domain alfred", ":domain blocks"), "expected 'alfred'"),
        (GOOD.replace("(openable Cabinet_bar_a)", "(opnable Cabinet_bar_a)"), "Did you mean 'openable'"),
        (GOOD.replace("(openable Cabinet_bar_a)", "(openable Cabinet_bar_z)"), "not declared"),
        (
            GOOD.replace("(openable Cabinet_bar_a)", "(openable Mug_bar_a)"),
            "of type 'object'; expected a 'receptacle'",
        ),
        (
            GOOD.replace("(openable Cabinet_bar_a)", "(openable Cabinet_bar_a desk_bar_a)"),
            "2 arguments; expected 1",
        ),
        (GOOD.replace("(openable Cabinet_bar_a)", "(not (openable Cabinet_bar_a))"), "plain facts"),
        (GOOD.replace("agent1 - agent", "agent1 - robot"), "object type must be one of"),
        (GOOD.replace("agent1 - agent", "agent1 - agent agent1 - object"), "declared as"),
        (GOOD.replace("(:goal", "(:init) (:goal"), "two ':init' sections"),
    ],
)
def test_malformed_problem_names_the_fault(broken: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_problem(broken)


def test_deep_nesting_and_huge_text_are_refused_quickly() -> None:
    begin = time.perf_counter()
    with pytest.raises(DataError, match="nests more than"):
        parse_expressions("(" * 1_000_000)
    with pytest.raises(DataError, match="characters"):
        parse_expressions("(" * (MAX_PROBLEM_CHARS + 1))
    assert time.perf_counter() - begin < 20


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="() -?;abc:\n", max_size=200))
def test_any_text_is_read_or_refused_with_a_data_error(text: str) -> None:
    for read in (parse_expressions, parse_problem):
        with suppress(DataError):
            read(text)


@settings(max_examples=100, deadline=None)
@given(position=st.integers(0, len(GOOD) - 1), junk=st.sampled_from(["", "(", ")", " x ", "\x00", "- "]))
def test_damaged_problem_is_read_or_refused_with_a_data_error(position: int, junk: str) -> None:
    with suppress(DataError):
        parse_problem(GOOD[:position] + junk + GOOD[position + 1 :])

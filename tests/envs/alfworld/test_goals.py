"""Goals are recognised as a whole, in any spelling of the same shape, and refused otherwise."""

from __future__ import annotations

import pytest

from agent_gym.envs.alfworld.world.goals import Goal, TaskType, compile_goal
from agent_gym.envs.alfworld.world.pddl import parse_expressions
from agent_gym.support.errors import DataError
from tests.envs.alfworld.tiny import GOALS, PLACE


def _compile(text: str) -> Goal:
    return compile_goal(parse_expressions(text)[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("place", Goal(TaskType.PLACE, "mugtype", "desktype")),
        ("clean", Goal(TaskType.CLEAN, "appletype", "cabinettype")),
        ("heat", Goal(TaskType.HEAT, "mugtype", "desktype")),
        ("cool", Goal(TaskType.COOL, "pantype", "stoveburnertype")),
        ("two", Goal(TaskType.TWO, "mugtype", "desktype")),
        ("light", Goal(TaskType.LIGHT, "booktype", "desklamptype")),
    ],
)
def test_the_six_shapes_are_recognised(name: str, expected: Goal) -> None:
    assert _compile(GOALS[name]) == expected


def test_order_and_nesting_of_conjunctions_make_no_difference() -> None:
    text = """(and (and (exists (?x - object ?y - receptacle) (and (receptacleType ?y DeskType)
        (and (objectType ?x MugType) (and (inReceptacle ?x ?y)))))))"""
    assert _compile(text) == _compile(GOALS["place"])


@pytest.mark.parametrize(
    "text",
    [
        PLACE.format(thing="MugType", target="DeskType", extra="(isClean ?o)"),
        PLACE.format(thing="MugType", target="DeskType", extra="(cleanable ?r) (isClean ?r)"),
        PLACE.format(thing="MugType", target="DeskType", extra="(sliceable ?o) (isSliced ?o)"),
        PLACE.format(
            thing="MugType", target="DeskType", extra="(heatable ?o) (isHot ?o) (cleanable ?o) (isClean ?o)"
        ),
        PLACE.format(thing="MugType", target="DeskType", extra="(not (openable ?r))"),
        PLACE.format(thing="MugType", target="DeskType", extra="(or (isHot ?o) (isCool ?o))"),
        GOALS["two"].replace("(not (= ?o1 ?o2))", ""),
        GOALS["two"].replace("(objectType ?o2 MugType)", "(objectType ?o2 PanType)"),
        GOALS["light"].replace("(isToggled ?ot)", ""),
        GOALS["light"].replace("(atLocation ?a ?l)", "(atLocation ?a ?x)"),
        "(and)",
        "(forall (?o - object) (isClean ?o))",
        "(and (holds ?a Mug_bar_a))",
        "()",
    ],
)
def test_other_goals_are_refused_by_shape(text: str) -> None:
    with pytest.raises(DataError, match=r"six ALFWorld shapes|bracketed atom"):
        _compile(text)

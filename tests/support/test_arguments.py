"""Values typed for an environment's arguments are checked against the arguments' annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import pytest

from agent_gym.core.make import known_ids, make_env
from agent_gym.support.arguments import check_arguments
from agent_gym.support.errors import ConfigError


class Mode(StrEnum):
    """A choice that the taker reads from its name."""

    FAST = "fast"


class Reader(Protocol):
    """Something that no check at run time can tell."""

    def read(self) -> str: ...


def takes(
    *,
    size: tuple[int, int] | None = None,
    text: str = "",
    share: float = 0.0,
    on: bool = False,
    files: str | Path | Sequence[str | Path] | None = None,
    weights: Mapping[str, float] | None = None,
    anything: Any = None,
    mode: Mode = Mode.FAST,
    reader: Reader | None = None,
    thing: object = None,
) -> None:
    """Take one argument of every kind."""


@pytest.mark.parametrize(
    "values",
    [
        {"size": (6, 6)},
        {"size": [6, 6]},
        {"size": None},
        {"text": "a", "share": 1, "on": True},
        {"files": ["a", Path("b")]},
        {"files": "a"},
        {"weights": {"nq": 1}},
        {"anything": object()},
        {"text": object()},
        {"mode": "fast"},
        {"reader": "anything"},
        {"thing": "anything"},
        {"unknown": 3},
    ],
)
def test_what_fits_is_returned_as_it_is(values):
    assert check_arguments("it", takes, values) == values


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"size": "abc"}, "it: size must be a list of 2 .a whole number, a whole number. or none, got 'abc'"),
        ({"size": [6]}, r"got \[6\]"),
        ({"size": [6, 6.5]}, "size must be"),
        ({"share": "much"}, "share must be a number, got 'much'"),
        ({"share": True}, "share must be a number, got True"),
        ({"on": "foo"}, "on must be true or false, got 'foo'"),
        ({"weights": 3}, "weights must be a table of names and values or none, got 3"),
        ({"files": [1]}, "files must be text or a path or a list of text or a path or none"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(values, said):
    with pytest.raises(ConfigError, match=said):
        check_arguments("it", takes, values)


def test_a_number_where_only_text_fits_was_text_before_it_was_read():
    assert check_arguments("it", takes, {"text": 0.3}) == {"text": "0.3"}
    assert make_env("ALFWorld-v0", {"text": 0.3}).unwrapped.text_format == "0.3"


@pytest.mark.parametrize(
    ("env_id", "options", "said"),
    [
        ("Sokoban-v0", {"size": "big"}, "SokobanEnv: size must be a list of 2 .* got 'big'"),
        ("Sokoban-v0", {"levels": 5}, "SokobanEnv: levels must be text or a path or a list of text or none, got 5"),
        ("WebShop-v0", {"split": 5}, "WebShopEnv: split must be text or none, got 5"),
        ("SearchQA-v0", {"entities": "many"}, "SearchQAEnv: entities must be a whole number or none, got 'many'"),
        ("ALFWorld-v0", {"hidden": "much"}, "^hidden must be a share from 0 to 1"),  # its own words say more
    ],
)
def test_a_constructor_says_which_argument_does_not_fit(env_id, options, said):
    with pytest.raises(ConfigError, match=said):
        gym.make(f"agent_gym/{env_id}", **options)


@pytest.mark.parametrize("env_id", known_ids())
def test_every_id_refuses_a_turn_limit_that_is_no_number(env_id):
    with pytest.raises(ConfigError, match="max_turns must be"):
        make_env(env_id, {"max_turns": "many"})

"""What users may name: members of enumerations, rows of tables, names; and lists given as their only item."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from agent_gym.support.checks import check_choice, several
from agent_gym.support.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@pytest.mark.parametrize(
    ("known", "found"), [(Colour, Colour.RED), ({"red": 1, "green": 2}, 1), (["red", "green"], "red")]
)
def test_what_is_named_is_found_or_all_names_and_a_near_one_are_told(known: Any, found: object) -> None:
    assert check_choice("colour", known, "red") is found
    with pytest.raises(ConfigError, match=r"^colour must be one of red, green, got 'rd'\. Did you mean 'red'\?$"):
        check_choice("colour", known, "rd")
    with pytest.raises(ConfigError, match=r"^colour must be one of 'red', 'green', got 3\.$"):
        check_choice("colour", known, 3, quoted=True)


@pytest.mark.parametrize(
    ("given", "items"), [(None, ()), ("red", ("red",)), (2, (2,)), (["red", 2], ("red", 2)), ((), ())]
)
def test_a_list_may_be_given_as_its_only_item(given: Any, items: tuple[Any, ...]) -> None:
    assert several("colours", given) == items


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(ConfigError, match="colours must be a list, got object"):
        several("colours", object())

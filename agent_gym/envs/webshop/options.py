"""Arguments of the WebShop environment: named difficulties and reading what users give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agent_gym.envs.webshop.data.generator import Detail, ShopSpec
from agent_gym.support.checks import check_choice

DIFFICULTIES: Final[Mapping[str, ShopSpec]] = {
    "tiny": ShopSpec(
        products=240,
        distractors=1,
        attributes=2,
        asked_attributes=1,
        asked_options=1,
        values=3,
        goals=12,
        kinds=12,
        detail=Detail.SHORT,
    ),
    "easy": ShopSpec(distractors=1, asked_attributes=2, asked_options=1),
    "standard": ShopSpec(),
    "hard": ShopSpec(distractors=9, attributes=7, asked_attributes=5, asked_options=3, values=10),
}
"""Name -> generated catalogue."""


def shop_spec(difficulty: Any, knobs: Mapping[str, Any]) -> ShopSpec:
    """Return the generated catalogue of a named difficulty, with some of its numbers replaced.

    Raises:
        ConfigError: There is no such difficulty, or a number is out of range.
    """
    named = check_choice("difficulty", DIFFICULTIES, difficulty)
    values = dict(knobs)
    if "detail" in values:
        values["detail"] = check_choice("detail", Detail, values["detail"])
    return replace(named, **values)

"""The reward of a purchase.

R = r_type * (matched attributes + matched options + [price within the limit]) / (attributes + options + 1),
WebShop (arXiv 2207.01206), equation 2, as computed by `web_agent_site/engine/goal.py`. Success is R = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from rapidfuzz.fuzz import token_set_ratio as _token_set_ratio
from rapidfuzz.utils import default_process

from agent_gym.envs.webshop.world.colours import normalise_pair, normalise_text
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import GoalKind, RewardKind
from agent_gym.envs.webshop.world.nouns import Nouns
from agent_gym.envs.webshop.world.product import Product, category_parts, clean_value

_MATCH: Final = 85
_NO_GOAL_NOUNS: Final = 0.2
_LATIN: Final = dict.fromkeys(range(128, 256))
_CACHED: Final = 65_536


@dataclass(frozen=True, slots=True)
class RewardParts:
    """A purchase's score and what it is made of.

    Attributes:
        score: R, in [0, 1].
        r_type: Factor for the kind of product: 1, 0.5, 0.1 or 0.
        r_att: Share of the attributes that match.
        w_att: Weight of the attributes.
        query_match: Whether the product's search query is the goal's.
        category_match: Whether two parts of the category paths are equal.
        title_score: Share of the nouns of the goal's title in the product's title.
        r_option: Share of the options that match, None where the goal has none.
        w_option: Weight of the options.
        r_price: Whether the price is within the limit.
        w_price: Weight of the price.
    """

    score: float
    r_type: float
    r_att: float
    w_att: float
    query_match: bool
    category_match: bool
    title_score: float
    r_option: float | None
    w_option: float
    r_price: bool
    w_price: float

    def verbose(self) -> dict[str, Any]:
        """Return the parts under the original's names."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "score"}


def judge(
    goal: Goal,
    product: Product,
    price: float,
    selected: Mapping[str, str],
    nouns: Nouns,
    *,
    kind: RewardKind = RewardKind.WEBSHOP,
) -> RewardParts:
    """Return the reward of buying a product.

    Args:
        goal: What was asked for.
        product: What is bought.
        price: Its price in the price table, in dollars.
        selected: Axis -> value chosen.
        nouns: Nouns of titles.
        kind: How options are compared.
    """
    query_match = product.query == goal.query
    category_match = len(product.category_parts & _goal_parts(goal.product_category)) >= 2
    title_score = _title_score(goal, product, nouns)
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1
    if title_score == 0.0:
        r_type = 0.0
    attributes = sum(attribute_matches(wanted, product) for wanted in goal.attributes)
    options = option_matches(goal, selected, kind)
    r_price = price <= goal.price_upper
    wanted_options = len(goal.options)
    total = len(goal.attributes) + wanted_options + 1
    return RewardParts(
        score=(attributes + options + r_price) / total * r_type,
        r_type=r_type,
        r_att=attributes / len(goal.attributes),
        w_att=len(goal.attributes) / total,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
        r_option=options / wanted_options if wanted_options else None,
        w_option=wanted_options / total,
        r_price=r_price,
        w_price=1 / total,
    )


def attribute_matches(wanted: str, product: Product) -> bool:
    """Return whether a product has an attribute: among its attributes, or literally in its texts."""
    if any(alike(own, wanted) for own in product.attributes):
        return True
    return (
        wanted in product.searched_title
        or wanted in product.searched_bullets
        or wanted in product.searched_description
    )


def option_matches(goal: Goal, selected: Mapping[str, str], kind: RewardKind) -> int:
    """Return how many of the goal's options the chosen ones meet."""
    return sum(
        any(option_matches_value(wanted, axis, value, goal.kind, kind) for axis, value in selected.items())
        for wanted in goal.options
    )


def option_matches_value(
    wanted: str | tuple[str, str], axis: str, value: str, goal_kind: GoalKind, kind: RewardKind
) -> bool:
    """Return whether one chosen option meets one wanted option.

    Args:
        wanted: A value (human goals) or a pair of axis and value (synthetic goals).
        axis: Axis of the chosen option.
        value: Value of the chosen option.
        goal_kind: Which of the two `wanted` is.
        kind: How options are compared. `STRICT` gives credit for equal values only (and equal axes, where the
            goal names them); `WEBSHOP` also takes "large" for "x-large", and anything with one colour word.
    """
    if kind is RewardKind.STRICT:
        if goal_kind is GoalKind.SYNTHETIC:
            return (axis, _plain(value)) == (wanted[0], _plain(wanted[1]))
        assert isinstance(wanted, str)
        return _plain(value) == _plain(wanted)
    if goal_kind is GoalKind.SYNTHETIC:
        normal = normalise_pair(wanted[0], wanted[1])
    else:
        assert isinstance(wanted, str)
        normal = normalise_text(wanted)
    return alike(normalise_text(value), normal)


@lru_cache(maxsize=_CACHED)
def alike(one: str, other: str) -> bool:
    """Return whether two texts match by thefuzz's token set ratio, which must exceed 85."""
    return token_set_ratio(one, other) > _MATCH


def token_set_ratio(one: str, other: str) -> int:
    """Return what `thefuzz.fuzz.token_set_ratio` gives: 0 to 100."""
    first, second = (default_process(text.translate(_LATIN)) for text in (one, other))
    return round(_token_set_ratio(first, second))


@lru_cache(maxsize=4096)
def _goal_parts(path: str) -> frozenset[str]:
    return category_parts(path)


def _plain(value: str) -> str:
    return " ".join(clean_value(value).split())


def _title_score(goal: Goal, product: Product, nouns: Nouns) -> float:
    wanted = nouns.of(goal.asin, goal.name)
    if not wanted:
        return _NO_GOAL_NOUNS
    found = set(nouns.of(product.asin, product.title))
    return len(found & set(wanted)) / len(wanted)

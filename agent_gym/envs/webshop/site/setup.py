"""A site on a catalogue: which goals its sessions get, and what names both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from agent_gym.envs.webshop.data.catalogues import NounChoice, ShopWorld
from agent_gym.envs.webshop.site.app import ShopSite, SiteConfig
from agent_gym.envs.webshop.site.visits import Goals
from agent_gym.envs.webshop.world.goals import Goal
from agent_gym.envs.webshop.world.kinds import GoalKind, RewardKind
from agent_gym.support.errors import ConfigError
from agent_gym.support.seeding import stable_hash


class CatalogueGoals(Sequence[Goal]):
    """The goals of a catalogue in canonical order, made when they are asked for."""

    def __init__(self, world: ShopWorld, kind: GoalKind) -> None:
        self._store = world.store()
        self._prices = world.price_table()
        self._kind = kind

    def __len__(self) -> int:
        return len(self._store.goal_tables[self._kind])

    def __getitem__(self, index: int) -> Goal:  # type: ignore[override]
        return self._store.goal(self._kind, index, self._prices)

    def weights(self) -> np.ndarray | None:
        """Return the weight of each goal in random draws, float64 [G]; None when all are equal."""
        return None if self._kind is GoalKind.HUMAN else self._store.synthetic_weights()


_DEFAULTS: Final = {
    "reward": RewardKind.WEBSHOP,
    "show_attributes": False,
    "magic": False,
}


def site_digest(world: ShopWorld, kind: GoalKind, rules: Mapping[str, Any]) -> str:
    """Return a text that is equal for sites which show the same pages and pay the same rewards."""
    # Grammar is the visitor's own business; everything else decides pages and rewards.
    shown = [f"{name}={rules.get(name, default)}" for name, default in _DEFAULTS.items()]
    # Where nouns come from depends on the machine (is spaCy there?), and a table on what its file holds.
    choice = rules.get("nouns", NounChoice.AUTO)
    table = "" if choice in list(NounChoice) else Path(choice).read_bytes().hex()
    origin = world.shop(**rules).nouns.origin.value
    return stable_hash(world.digest(), kind.value, *shown, origin, table, size=12)


def make_site(world: ShopWorld, kind: GoalKind, rules: Mapping[str, Any], config: SiteConfig) -> ShopSite:
    """Return the site of a catalogue.

    Args:
        world: The catalogue.
        kind: Kind of the goals that sessions get.
        rules: Arguments of `ShopWorld.shop`.
        config: How the site behaves.

    Raises:
        ConfigError: The catalogue has no goal of this kind.
    """
    goals = CatalogueGoals(world, kind)
    if not len(goals):
        raise ConfigError(f"the catalogue has no {kind.value} goals; serve the others with --goals")
    shop = world.shop(**rules)
    return ShopSite(shop, Goals(goals, goals.weights()), config, site_digest(world, kind, rules))

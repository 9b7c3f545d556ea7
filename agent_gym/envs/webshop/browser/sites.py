"""The sites that environments of a process shop on: one for each catalogue and set of rules, served by a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from agent_gym.envs.webshop.data.catalogues import ShopWorld
from agent_gym.envs.webshop.site.visits import Goals, Visits
from agent_gym.envs.webshop.world.goals import Goal

_LOCK = threading.Lock()
_SITES: Final[dict[tuple[Any, ...], Any]] = {}


def local_site(world: ShopWorld, rules: Mapping[str, Any], goal: Goal) -> Any:
    """Return the `LocalSite` of a catalogue with these rules, started if this process has none.

    Args:
        world: The catalogue.
        rules: Arguments of `ShopWorld.shop`.
        goal: Goal of sessions that no environment has pinned.
    """
    from agent_gym.envs.webshop.site.app import ShopSite
    from agent_gym.envs.webshop.site.server import LocalSite

    key = (os.getpid(), world, tuple(sorted((name, str(value)) for name, value in rules.items())))
    shop = world.shop(**rules)
    with _LOCK:
        found = _SITES.get(key)
        if found is None:
            found = _SITES[key] = LocalSite(ShopSite(shop, Goals([goal])))
        return found


class SessionPin:
    """Keeps the goal of a session on a site for as long as an environment, or a copy of it, is in the session."""

    def __init__(self, visits: Visits, name: str, goal: Goal) -> None:
        self._visits = visits
        self._name = name
        visits.pin(name, goal)

    def __deepcopy__(self, memo: dict[int, Any]) -> SessionPin:
        return self

    def __del__(self) -> None:
        self._visits.unpin(self._name)


def _after_fork() -> None:
    """Make a new lock: another thread may have held the old one."""
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)

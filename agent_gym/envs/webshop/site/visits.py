"""Visits to the site: which goal a session has, and what is kept of it.

The goal of a session depends on its name and the site's seed alone, so that forgetting a session that was not
seen for long loses nothing but which of its products count as visited.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent_gym.envs.webshop.site.addresses import NoPageError
from agent_gym.envs.webshop.world.goals import Goal, fraction
from agent_gym.support.errors import ConfigError

MAX_SESSIONS: Final = 10_000
"""Sessions remembered at once."""
_MAX_VISITED: Final = 500
_FIXED: Final = "fixed"


@dataclass
class Visit:
    """What the site knows of a session.

    Attributes:
        name: Name of the session.
        goal: What the visitor is asked to buy.
        visited: Products opened since the start page.
    """

    name: str
    goal: Goal
    visited: set[str] = field(default_factory=set)

    def open(self, asin: str) -> None:
        """Note that a product was opened."""
        if len(self.visited) < _MAX_VISITED:
            self.visited.add(asin)


class Goals:
    """The goals that sessions can have, in canonical order, and their weights in random draws.

    Args:
        goals: The goals.
        weights: A weight for each; all are equal if None.
    """

    def __init__(self, goals: Sequence[Goal], weights: Sequence[float] | np.ndarray | None = None) -> None:
        if not len(goals):
            raise ConfigError("the site needs at least one goal, got none")
        self._goals = goals
        self._cumulative = None if weights is None else np.cumsum(np.asarray(weights, dtype=np.float64))

    def __len__(self) -> int:
        return len(self._goals)

    def __getitem__(self, index: int) -> Goal:
        return self._goals[index]

    def draw(self, uniform: float) -> Goal:
        """Return a goal by weight for a number in [0, 1)."""
        if self._cumulative is None:
            return self._goals[int(uniform * len(self._goals))]
        place = int(np.searchsorted(self._cumulative, uniform * self._cumulative[-1], side="right"))
        return self._goals[min(place, len(self._goals) - 1)]


class Visits:
    """The sessions of a site, at most `limit`: the one that was not seen for longest is forgotten first.

    Args:
        goals: Goals in canonical order.
        seed: Seed of the goals of sessions that name none.
        limit: Sessions remembered at once.
    """

    def __init__(self, goals: Goals, *, seed: int = 0, limit: int = MAX_SESSIONS) -> None:
        if limit < 1:
            raise ConfigError(f"the number of sessions must be at least 1, got {limit}")
        self.goals = goals
        self._seed = seed
        self._limit = limit
        self._visits: OrderedDict[str, Visit] = OrderedDict()
        self._pinned: dict[str, Goal] = {}
        self._left: deque[str] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._visits)

    def get(self, name: str) -> Visit:
        """Return the visit of a session, begun if it is new.

        Raises:
            NoPageError: The name pins a goal that does not exist.
        """
        with self._lock:
            self._forget()
            visit = self._visits.get(name)
            if visit is None:
                visit = self._visits[name] = Visit(name, self._goal(name))
                if len(self._visits) > self._limit:
                    self._visits.popitem(last=False)
            else:
                self._visits.move_to_end(name)
            return visit

    def pin(self, name: str, goal: Goal) -> None:
        """Give a session this goal, until `unpin`."""
        with self._lock:
            self._forget()
            self._pinned[name] = goal
            self._visits.pop(name, None)

    def unpin(self, name: str) -> None:
        """Forget a session and its goal; may be called at any time, also by the garbage collector."""
        self._left.append(name)

    def _forget(self) -> None:
        while self._left:
            name = self._left.popleft()
            self._pinned.pop(name, None)
            self._visits.pop(name, None)

    def _goal(self, name: str) -> Goal:
        pinned = self._pinned.get(name)
        if pinned is not None:
            return pinned
        if _FIXED not in name:
            return self.goals.draw(fraction("site goal", self._seed, name))
        digits = name.rpartition("_")[2]
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 9 or int(digits) >= len(self.goals):
            last = len(self.goals) - 1
            raise NoPageError(f"a session with {_FIXED!r} in its name ends in _N, a goal from 0 to {last:,}")
        return self.goals[int(digits)]

"""Which environment plays next, and when a curriculum moves on: pure rules, no environment is made.

Groups are dealt to environments by their weights, without chance: the next group goes to the environment that
is furthest behind its share, so that any prefix of the deal is as close to the weights as whole groups allow and
the whole state is one count an environment.

A curriculum is a list of stages whose options are laid over one another. The training success that moves it on
is that of all sampled episodes, before any filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainers.settings.env import DifficultyStage


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split a number by weights into whole numbers that add up to it, by the largest remainders."""
    exact = [total * weight / sum(weights) for weight in weights]
    counts = [int(value) for value in exact]
    behind = sorted(range(len(exact)), key=lambda place: (counts[place] - exact[place], place))
    for place in behind[: total - sum(counts)]:
        counts[place] += 1
    return counts


def deal(count: int, weights: Sequence[float], dealt: Sequence[int]) -> list[int]:
    """Return which part each of the next groups belongs to.

    Args:
        count: Groups to deal.
        weights: Weight of each part; they add up to 1.
        dealt: Groups that each part had so far.
    """
    have = list(dealt)
    order = []
    for _ in range(count):
        due = sum(have) + 1
        place = max(range(len(weights)), key=lambda number: (weights[number] * due - have[number], -number))
        have[place] += 1
        order.append(place)
    return order


class Curriculum:
    """Where a curriculum stands.

    Args:
        stages: Its stages; none is one stage without end.
    """

    def __init__(self, stages: Sequence[DifficultyStage] = ()) -> None:
        self._stages = tuple(stages)
        self.stage = 0
        self.iterations = 0
        """Iterations spent in the stage."""
        self._recent: list[float] = []

    def advance(self, success: float | None) -> bool:
        """Count an iteration.

        Args:
            success: Success of the iteration's episodes; None when none was played.

        Returns:
            Whether the next stage begins.
        """
        if self.stage + 1 >= len(self._stages):
            return False
        current = self._stages[self.stage]
        self.iterations += 1
        if success is not None:
            self._recent = [*self._recent, success][-current.window :]
        enough = current.success is not None and len(self._recent) == current.window
        reached = enough and sum(self._recent) / current.window >= (current.success or 0.0)
        if not reached and (current.iterations is None or self.iterations < current.iterations):
            return False
        self.stage, self.iterations, self._recent = self.stage + 1, 0, []
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {"stage": self.stage, "iterations": self.iterations, "recent": list(self._recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state."""
        self.stage, self.iterations = int(state["stage"]), int(state["iterations"])
        self._recent = [float(value) for value in state["recent"]]

"""Which tasks an iteration plays."""

from __future__ import annotations

from agent_gym.core.tasks import TaskSet
from agent_gym.support.seeding import generator

_SHUFFLED = 1_000_000  # sets up to this size are played in shuffled epochs, larger ones in their own order


class TaskSampler:
    """Hands out task ids in an order fixed by the seed; its whole state is one position.

    A finite set is played in epochs, each in its own shuffled order, so every task is seen equally often. A
    practically endless set (generated from seeds) is played in order: its tasks are independent already. A set
    whose sources have weights is drawn from with them. Every draw moves the position on, those of the dynamic
    filter's further tries too, so a resumed run repeats nothing.

    Args:
        tasks: Tasks to draw from.
        seed: Seed of the shuffles.
        position: Draws made so far.
    """

    def __init__(self, tasks: TaskSet, seed: int, position: int = 0) -> None:
        self._tasks = tasks
        self._seed = seed
        self._epoch = -1
        self._order: list[int] = []
        self.position = position

    def draw(self, count: int) -> list[str]:
        """Return the next `count` task ids."""
        return [self._next() for _ in range(count)]

    def _next(self) -> str:
        if self._tasks.weighted:
            self.position += 1
            return self._tasks.sample(generator(self._seed, "task draw", self.position)).id
        size = len(self._tasks.ids)
        epoch, index = divmod(self.position, size)
        if size <= _SHUFFLED:
            if epoch != self._epoch:
                self._epoch = epoch
                self._order = generator(self._seed, "task order", epoch).permutation(size).tolist()
            index = self._order[index]
        self.position += 1
        return self._tasks.ids[index]

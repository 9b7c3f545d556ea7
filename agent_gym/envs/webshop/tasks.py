"""Task sets of WebShop: the goals of a catalogue, found when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import overload

from agent_gym.core.tasks import Task, TaskSet, check_split
from agent_gym.envs.webshop.data.catalogues import ShopWorld
from agent_gym.envs.webshop.data.splits import ALL, Split
from agent_gym.envs.webshop.data.store import Store
from agent_gym.envs.webshop.world.kinds import GoalKind
from agent_gym.support.errors import DataError

SPLITS = (*(split.value for split in Split), ALL)


class GoalIds(Sequence[str]):
    """Ids `<kind>/<asin>-<n>`, the n-th goal of a product, without holding them.

    Args:
        store: The catalogue.
        kind: Kind of goals.
        split: Split.
    """

    def __init__(self, store: Store, kind: GoalKind, split: str) -> None:
        self._store = store
        self._kind = kind
        self._table = store.goal_tables[kind]
        self._places = self._table.in_split(split)
        self.place = lru_cache(maxsize=1024)(self._place)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(map(self._id, self._places[index]))
        return self._id(self._places[index])

    def _id(self, place: int) -> str:
        _, row, number = self._table.at(place)
        return f"{self._kind.value}/{self._store.asin(row)}-{number}"

    def _place(self, item: str) -> int | None:
        """Return the canonical place of an id of this split, None for any other text."""
        kind, _, name = item.partition("/")
        asin, _, digits = name.rpartition("-")
        if kind != self._kind.value or not (digits.isascii() and digits.isdecimal()) or len(digits) > 12:
            return None
        row = self._store.row(asin)
        number = int(digits)
        place = None if row is None or str(number) != digits else self._table.place(row, number)
        return place if place is not None and place in self._places else None

    def __contains__(self, item: object) -> bool:
        return isinstance(item, str) and self.place(item) is not None


@dataclass(frozen=True, eq=False, repr=False)
class GoalTasks(TaskSet):
    """The goals of one kind and split of a catalogue, which is opened when the first one is asked for.

    Attributes:
        world: The catalogue.
        kind: Human or synthetic goals.
        split: "train", "valid", "test", or "all" for the whole canonical order.
    """

    world: ShopWorld
    kind: GoalKind
    split: str

    def __post_init__(self) -> None:
        check_split("WebShop has", SPLITS, self.split)

    @cached_property
    def _ids(self) -> GoalIds:
        store = self.world.store()
        ids = GoalIds(store, self.kind, self.split)
        if not len(ids):
            other = next(kind for kind in GoalKind if kind is not self.kind)
            raise DataError(
                f"split {self.split!r} has no {self.kind.value} goal: the catalogue has "
                f"{len(store.goal_tables[self.kind]):,} of them (and {len(store.goal_tables[other]):,} "
                f"{other.value} ones). The 1,000-product subset has few human goals: use goals='synthetic'"
            )
        return ids

    @property
    def ids(self) -> GoalIds:
        """Ids in canonical order."""
        return self._ids

    def load(self, task_id: str) -> Task:
        """Return the task of an id."""
        place = self.ids.place(task_id)
        assert place is not None  # get() and __getitem__ pass known ids only
        goal = self.world.store().goal(self.kind, place, self.world.price_table())
        return Task(task_id, goal.category or self.kind.value, self.split, goal.to_record())

    def __reduce__(self) -> tuple[object, ...]:
        return GoalTasks, (self.world, self.kind, self.split)

    def __repr__(self) -> str:
        return f"GoalTasks(kind={self.kind.value!r}, split={self.split!r})"

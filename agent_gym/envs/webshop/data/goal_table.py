"""All goals of a catalogue, as arrays: from a place in the canonical order to a product and back.

Nothing is held per goal but two numbers, so the millions of synthetic goals of a full catalogue cost no start-up
time and lie in mapped files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from agent_gym.envs.webshop.data.rows import mapped
from agent_gym.envs.webshop.data.splits import ALL, PUBLISHED_GOALS, Split, split_places
from agent_gym.envs.webshop.world.goals import canonical_order
from agent_gym.envs.webshop.world.kinds import GoalKind

Array = npt.NDArray[Any]
_ARRAYS = ("rows", "starts", "order", "places")


@dataclass(frozen=True)
class GoalTable:
    """Goals in the order of the catalogue ("number") and in the canonical order ("place").

    Attributes:
        kind: Human or synthetic.
        rows: Rows of the products that have goals, ascending, int [P].
        starts: Number of each such product's first goal, and the number of goals, int [P + 1].
        order: Place -> number, int [G].
        places: Number -> place, int [G].
        splits: Split -> places, ascending.
    """

    kind: GoalKind
    rows: Array
    starts: Array
    order: Array
    places: Array
    splits: dict[str, Array]

    @classmethod
    def make(cls, kind: GoalKind, rows: Sequence[int], counts: Sequence[int]) -> GoalTable:
        """Return the table of products with `counts` goals each, in canonical order, split."""
        starts = np.concatenate(([0], np.cumsum(np.asarray(counts, dtype=np.int64))))
        total = int(starts[-1])
        word = np.int32 if total < 2**31 else np.int64
        order = canonical_order(total).astype(word)
        places = np.empty(total, dtype=word)
        places[order] = np.arange(total, dtype=word)
        owners = np.repeat(np.asarray(rows, dtype=np.int32), np.diff(starts))
        published = kind is GoalKind.HUMAN and total == PUBLISHED_GOALS
        parts = split_places(owners[order], published=published)
        splits = {split.value: found.astype(word) for split, found in parts.items()}
        return cls(kind, np.asarray(rows, dtype=np.int32), starts=starts, order=order, places=places, splits=splits)

    def save(self, folder: Path) -> None:
        """Write the arrays into a folder."""
        for name in _ARRAYS:
            np.save(folder / f"{self.kind.value}_{name}.npy", getattr(self, name))
        for split, found in self.splits.items():
            np.save(folder / f"{self.kind.value}_split_{split}.npy", found)

    @classmethod
    def open(cls, folder: Path, kind: GoalKind) -> GoalTable:
        """Map the arrays of a folder.

        Raises:
            OSError: A file is missing.
            ValueError: A file is no array, or the arrays do not fit one another.
        """

        def load(name: str) -> Array:
            return mapped(folder / f"{kind.value}_{name}.npy")

        splits = {split.value: load(f"split_{split.value}") for split in Split}
        rows, starts, order, places = (load(name) for name in _ARRAYS)
        sizes = len(rows) + 1, len(order), len(places)
        if (len(starts), int(starts[-1]) if len(starts) else -1, len(order)) != sizes:
            raise ValueError(f"the arrays of the {kind.value} goals do not fit one another")
        return cls(kind, rows, starts=starts, order=order, places=places, splits=splits)

    def __len__(self) -> int:
        return len(self.order)

    def at(self, place: int) -> tuple[int, int, int]:
        """Return position among the products with goals, product row and number within the product, of a place."""
        number = int(self.order[place])
        owner = int(self.starts.searchsorted(number, side="right")) - 1
        return owner, int(self.rows[owner]), number - int(self.starts[owner])

    def place(self, row: int, number: int) -> int | None:
        """Return the place of a product's goal, None where there is none."""
        owner = int(self.rows.searchsorted(row))
        if owner == len(self.rows) or int(self.rows[owner]) != row or number < 0:
            return None
        found = int(self.starts[owner]) + number
        return int(self.places[found]) if found < int(self.starts[owner + 1]) else None

    def in_split(self, split: str) -> Sequence[int]:
        """Return the places of a split; "all" is the whole canonical order."""
        return range(len(self)) if split == ALL else _Places(self.splits[split])


class _Places(Sequence[int]):
    """An ascending array of places as a sequence of Python numbers, with fast membership."""

    def __init__(self, places: Array) -> None:
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        found = self._places[index]
        return found.tolist() if isinstance(index, slice) else int(found)

    def __contains__(self, place: object) -> bool:
        if not isinstance(place, int):
            return False
        at = int(self._places.searchsorted(place))
        return at < len(self._places) and int(self._places[at]) == place

"""Which goals belong to which split.

The published splits are ranges of the canonical order of the full catalogue's human goals. Smaller catalogues and
synthetic goals are split by product, in the same proportions, so that no product of a test goal occurs in training:
with ranges, the many synthetic goals of one product would fall on both sides.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

PUBLISHED_GOALS: Final = 12_087
"""Human goals of the full catalogue, by which it is recognised."""

Places = npt.NDArray[Any]


class Split(StrEnum):
    """Splits; they share no goal."""

    TRAIN = "train"
    VALID = "valid"
    TEST = "test"


ALL: Final = "all"
"""Name of the whole canonical order, for ranges that other work used."""
PUBLISHED: Final = {
    Split.TEST: range(500),
    Split.VALID: range(500, 1500),
    Split.TRAIN: range(1500, PUBLISHED_GOALS),
}
"""Ranges of the canonical order."""


def split_places(rows: Places, *, published: bool) -> dict[Split, Places]:
    """Return the places in the canonical order that each split has, ascending.

    Args:
        rows: Product row of the goal at each place, int [G].
        published: Whether the ranges of `PUBLISHED` apply; else goals are split by product.
    """
    if published:
        return {split: np.arange(part.start, min(part.stop, len(rows))) for split, part in PUBLISHED.items()}
    names, first = np.unique(rows, return_index=True)
    by_appearance = np.empty(len(names), dtype=np.int64)
    by_appearance[np.argsort(first, kind="stable")] = np.arange(len(names))
    share = len(names) / PUBLISHED_GOALS
    least = 1 if len(names) >= len(Split) else 0
    test = max(least, round(len(PUBLISHED[Split.TEST]) * share))
    valid = test + max(least, round(len(PUBLISHED[Split.VALID]) * share))
    turn = by_appearance[np.searchsorted(names, rows)]
    parts = {Split.TEST: turn < test, Split.VALID: (turn >= test) & (turn < valid), Split.TRAIN: turn >= valid}
    return {split: np.flatnonzero(mask) for split, mask in parts.items()}

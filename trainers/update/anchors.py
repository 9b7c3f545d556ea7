"""Step groups: turn rows of one task group that were taken in the same, or nearly the same, state.

GiGPO (arXiv 2505.10978) compares turns that start from one anchor state. Structured observations are grouped
by equality. Free text (a search page, a document list) is grouped by greedy clusters: a row joins the first
cluster whose first member is similar enough, else it opens a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from agent_gym.support.errors import ConfigError, DataError

MAX_COMPARED_CHARS = 1000
"""Similarity looks at this many leading characters of each anchor. Matching without junk heuristics is about
quadratic in length; whole-text lengths are still compared first, so a long page never joins a short one."""


@dataclass(frozen=True)
class AnchorStats:
    """How far rows share their states."""

    mean_size: float
    """Rows per step group; 0 without rows."""
    singleton_share: float
    """Share of rows that are alone in their step group; 0 without rows."""


def step_groups(group: NDArray[np.int64], anchor: Sequence[str], similarity: float = 1.0) -> NDArray[np.int64]:
    """Number the step groups of a batch of turn rows.

    Args:
        group: Task group of each row, shape [R].
        anchor: Anchor state of each row, length R.
        similarity: 1 for equality, below 1 for greedy clusters in the order of the rows.

    Returns:
        Step group of each row, shape [R], numbered from 0 in order of first appearance. Rows of different
        task groups never share one.

    Raises:
        DataError: When the lengths differ.
        ConfigError: When the similarity is outside (0, 1].
    """
    if len(group) != len(anchor):
        raise DataError(f"expected one anchor per row, got {len(anchor)} anchors for {len(group)} rows.")
    if not 0.0 < similarity <= 1.0:
        raise ConfigError(f"anchor similarity must lie in (0, 1], got {similarity!r}; 1 means equality.")
    # Equal texts always meet the same first match, so one decision per (group, text) is enough.
    decided: dict[tuple[int, str], int] = {}
    clusters: dict[int, list[tuple[str, int]]] = {}
    result = np.empty(len(group), dtype=np.int64)
    n_groups = 0
    for row, (owner, text) in enumerate(zip(group.tolist(), anchor, strict=True)):
        number = decided.get((owner, text))
        if number is None and similarity < 1.0:
            number = _first_match(text, clusters.get(owner, []), similarity)
        if number is None:
            number = n_groups
            n_groups += 1
            clusters.setdefault(owner, []).append((text, number))
        decided[owner, text] = number
        result[row] = number
    return result


def anchor_stats(step_group: NDArray[np.int64]) -> AnchorStats:
    """Measure the sizes of step groups; negative numbers mark rows without one and are left out."""
    _, sizes = np.unique(step_group[step_group >= 0], return_counts=True)
    if not len(sizes):
        return AnchorStats(0.0, 0.0)
    return AnchorStats(float(sizes.mean()), float((sizes == 1).sum() / sizes.sum()))


def _first_match(text: str, clusters: list[tuple[str, int]], threshold: float) -> int | None:
    candidate = _Candidate(text)
    return next((number for first, number in clusters if candidate.matches(first, threshold)), None)


class _Candidate:
    """A text indexed once and compared with many first members, by ever dearer upper bounds of the ratio."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._text = text[:MAX_COMPARED_CHARS]
        self._matcher = SequenceMatcher(None, autojunk=False)
        # difflib indexes its second text.
        self._matcher.set_seq2(self._text)
        self._places: dict[str, int] = {}
        for place, char in enumerate(self._text):
            self._places[char] = self._places.get(char, 0) | 1 << place

    def matches(self, first: str, threshold: float) -> bool:
        # The ratio is 2 * matched / total, and no more characters match than the shorter text has.
        if 2.0 * min(len(first), self._length) < threshold * (len(first) + self._length):
            return False
        first = first[:MAX_COMPARED_CHARS]
        # Matching blocks form a common subsequence, so its greatest length bounds them, at a small part of
        # the cost of finding them.
        if 2.0 * self._common_subsequence(first) < threshold * (len(first) + len(self._text)):
            return False
        self._matcher.set_seq1(first)
        return self._matcher.ratio() >= threshold

    def _common_subsequence(self, other: str) -> int:
        """Length of the longest common subsequence, all columns of its table in the bits of one integer."""
        full = (1 << len(self._text)) - 1
        row = full
        for char in other:
            hit = row & self._places.get(char, 0)
            row = ((row + hit) | (row - hit)) & full
        return len(self._text) - row.bit_count()

"""Turn rows: the table that rewards, penalties and anchor states of a batch arrive in, and its returns.

Pure float64 numpy; no tensor, no policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent_gym.support.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowTable:
    """Turn rows of a batch, as columns of equal length R, in any order.

    Raises:
        DataError: When columns differ in length, an id is not an integer, a penalty is negative or not
            finite, a token count or an entropy is negative, an episode lies in two groups, or a turn occurs
            twice.
    """

    group: Ints
    """Task group of the row: episodes of one group played the same task."""
    episode: Ints
    """Episode id, unique over the batch."""
    turn: Ints
    """Turn number inside the episode, from 0."""
    reward: Floats
    """Env reward of the turn, without penalties. May be non-finite: the episode is then dropped."""
    penalty: Floats
    """Format penalty of this row, at least 0."""
    anchor: tuple[str, ...]
    """Anchor state in which the turn was taken."""
    n_tokens: Ints
    """Sampled tokens of the row: the weight of the row when whitening."""
    entropy: Floats | None = None
    """Mean entropy in nats of the row's sampled tokens under the policy that produced the batch; NaN where
    it is not known (a reply without a token). None: nobody asked for it."""

    def __post_init__(self) -> None:
        for name in ("group", "episode", "turn", "n_tokens"):
            column = np.asarray(getattr(self, name))
            if column.size and not np.issubdtype(column.dtype, np.integer):
                raise DataError(f"column {name} must hold integers, got dtype {column.dtype}.")
            object.__setattr__(self, name, column.astype(np.int64))
        for name in ("reward", "penalty"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        object.__setattr__(self, "anchor", tuple(self.anchor))
        n_rows = len(self.anchor)
        for name in ("group", "episode", "turn", "reward", "penalty", "n_tokens"):
            shape = getattr(self, name).shape
            if shape != (n_rows,):
                raise DataError(f"column {name} must have shape ({n_rows},) like anchor, got {shape}.")
        if not np.all(np.isfinite(self.penalty) & (self.penalty >= 0)):
            raise DataError("penalties must be finite and at least 0: they are amounts to subtract.")
        if self.entropy is not None:
            entropy = np.asarray(self.entropy, dtype=np.float64)
            object.__setattr__(self, "entropy", entropy)
            if entropy.shape != (n_rows,):
                raise DataError(f"column entropy must have shape ({n_rows},) like anchor, got {entropy.shape}.")
            if np.any(entropy < 0) or np.any(np.isinf(entropy)):
                raise DataError(f"entropies must be finite and at least 0 (NaN: unknown), got {entropy.min()}.")
        if np.any(self.n_tokens < 0):
            raise DataError(f"n_tokens must be at least 0, got {self.n_tokens.min()}.")
        self._check_ids()

    def _check_ids(self) -> None:
        order = np.lexsort((self.turn, self.episode))
        episode, turn, group = self.episode[order], self.turn[order], self.group[order]
        same = episode[1:] == episode[:-1]
        twice = same & (turn[1:] == turn[:-1])
        if twice.any():
            at = int(np.argmax(twice))
            raise DataError(f"turn {turn[at]} of episode {episode[at]} occurs twice; episode ids must be unique.")
        split = same & (group[1:] != group[:-1])
        if split.any():
            at = int(np.argmax(split))
            raise DataError(
                f"episode {episode[at]} lies in groups {group[at]} and {group[at + 1]}; "
                "episode ids must be unique over the batch."
            )

    def __len__(self) -> int:
        return len(self.anchor)

    def take(self, rows: Ints | Bools) -> RowTable:
        """Return the chosen rows, by index or by mask, in that order."""
        index = np.arange(len(self))[rows]
        columns = {
            name: getattr(self, name)[index]
            for name in ("group", "episode", "turn", "reward", "penalty", "n_tokens")
        }
        entropy = None if self.entropy is None else self.entropy[index]
        return RowTable(**columns, anchor=tuple(self.anchor[row] for row in index.tolist()), entropy=entropy)


def episode_returns(table: RowTable) -> Floats:
    """Sum the env rewards of each row's episode, shape [R]. Summed in turn order; penalties do not enter."""
    order = np.lexsort((table.turn, table.episode))
    _, inverse = np.unique(table.episode, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.bincount(inverse[order], weights=table.reward[order])
    return np.asarray(sums[inverse], dtype=np.float64)


def finite_episodes(table: RowTable) -> Bools:
    """Whether every reward of each row's episode is finite, shape [R]; the other episodes are dropped."""
    return np.asarray(np.isfinite(episode_returns(table)), dtype=np.bool_)


def step_returns(table: RowTable, gamma: float) -> Floats:
    """Discounted return from each turn on (arXiv 2505.10978): G(i,k) = sum over m >= k of gamma^(m-k) r(i,m).

    Exponents are differences of turn numbers, so a turn without a row still discounts.

    Returns:
        Shape [R], in the order of the table. Penalties do not enter.
    """
    result = np.zeros(len(table))
    after, episode, turn = 0.0, None, 0
    for row in np.lexsort((table.turn, table.episode))[::-1].tolist():
        gap = turn - int(table.turn[row])
        carried = gamma**gap * after if episode == table.episode[row] else 0.0
        after, episode, turn = float(table.reward[row]) + carried, table.episode[row], int(table.turn[row])
        result[row] = after
    return result

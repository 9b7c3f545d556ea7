"""Small turn tables for tests of the estimators."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from trainers.update.turn_table import RowTable

Episode = tuple[int, list[float]]


def table_of(
    episodes: list[Episode],
    penalty: list[float] | None = None,
    anchor: list[str] | None = None,
    entropy: list[float] | None = None,
) -> RowTable:
    """Rows of (group, rewards) episodes, of equal entropy unless told otherwise."""
    rows = [
        (group, number, turn, reward)
        for number, (group, rewards) in enumerate(episodes)
        for turn, reward in enumerate(rewards)
    ]
    columns = [np.array([row[i] for row in rows]) for i in range(4)]
    return RowTable(
        group=columns[0].astype(int),
        episode=columns[1].astype(int),
        turn=columns[2].astype(int),
        reward=columns[3].astype(float),
        penalty=np.array(penalty if penalty is not None else [0.0] * len(rows)),
        anchor=tuple(anchor if anchor is not None else [f"s{turn}" for _, _, turn, _ in rows]),
        n_tokens=np.array([4] * len(rows)),
        entropy=np.array(entropy if entropy is not None else [0.5] * len(rows)),
    )


REFERENCE = table_of(
    [(0, [0.0, 10.0]), (0, [0.0, 0.0, 0.0])],
    penalty=[0.0, 0.0, 0.0, 0.1, 0.0],
    anchor=["s0", "s1", "s0", "s2", "s0"],
)


@st.composite
def tables(draw: st.DrawFn) -> RowTable:
    values = st.sampled_from([0.0, 1.0, -0.5, 10.0, 0.1, math.nan])
    episodes = draw(
        st.lists(st.tuples(st.integers(0, 2), st.lists(values, min_size=1, max_size=4)), min_size=1, max_size=8)
    )
    n_rows = sum(len(rewards) for _, rewards in episodes)
    penalty = draw(st.lists(st.sampled_from([0.0, 0.1]), min_size=n_rows, max_size=n_rows))
    anchor = draw(st.lists(st.sampled_from("abc"), min_size=n_rows, max_size=n_rows))
    entropy = draw(st.lists(st.sampled_from([0.0, 0.3, 2.0, math.nan]), min_size=n_rows, max_size=n_rows))
    return table_of(episodes, penalty, anchor, entropy)

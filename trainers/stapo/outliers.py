"""Which turns of a batch stand out by their entropy: the localisation of STAPO (arXiv 2607.04963).

A turn's entropy H (mean over its sampled tokens, under the policy that produced the batch) says little by itself:
some states are harder than others. Turns taken in one state are therefore compared with each other, and what is
left is a value that has the same scale everywhere:

    Hn = (H - mean) / (std + 1e-6)          over the turns of the anchor group

Turns of states with fewer than `min_anchor_group` turns keep H, in a pool of their own, so that the scales never
mix. With `entropy=centred` the value is H - mean, in nats, from two turns a state on: a reading, since the paper's
abstract speaks of deviations from the average behaviour and names no division. In each pool a turn is an outlier
when its value exceeds Q3 + lambda * IQR.

Departure from the paper: the least size of a group, which is 2 there (n values have no deviation above
(n - 1) / sqrt(n), so that a turn of a small group could never be flagged). Where the paper is silent: a group whose
entropies lie within `UNIFORM_ENTROPY` counts as equal (they differ by float32 rounding, which division by the
deviation would blow up); the floor under the interquartile range; `leave_one_out`; the lower side.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from agent_gym.support.errors import ConfigError
from trainers.settings.algorithm import UNIFORM_ENTROPY
from trainers.settings.stapo import EntropyKind, Side, StapoSettings
from trainers.update.anchors import step_groups
from trainers.update.turn_table import Bools, Floats, Ints, RowTable

EPS = 1e-6
"""Added to every standard deviation."""


class Pool(StrEnum):
    """The values that a turn's value is compared with."""

    NORMALIZED = "normalized"
    """Deviations inside anchor groups."""
    CENTRED = "centred"
    """Differences from the mean of anchor groups, in nats."""
    SHANNON = "shannon"
    """Plain entropies in nats."""
    UNKNOWN = "unknown"
    """The reply held no token."""


@dataclass(frozen=True, eq=False)
class Outliers:
    """The turns of a batch and which of them stand out; columns of R rows in the order of the table."""

    flagged: Bools
    """The outliers."""
    entropy: Floats
    """Mean token entropy in nats; NaN where unknown."""
    value: Floats
    """What is compared in the row's pool: a deviation, a difference, or the entropy; NaN where unknown."""
    pool: tuple[Pool, ...]
    """Pool of each row."""
    group_size: Ints
    """Turns of the row's anchor group that have an entropy."""
    limits: dict[Pool, tuple[float, float]]
    """Lower and upper limit of each pool that has rows; the lower one is minus infinity for `side="upper"`."""

    @property
    def eligible(self) -> Bools:
        """Rows that are compared with the other turns of their state."""
        return np.array([pool in (Pool.NORMALIZED, Pool.CENTRED) for pool in self.pool], dtype=np.bool_)

    def stats(self) -> dict[str, float]:
        """Return metrics, named as in `trainers.run.metrics.METRICS`; those of no row are left out."""
        known = np.isfinite(self.entropy)
        if not known.any():
            return {}
        eligible = self.eligible
        found = {
            "stapo/outlier_share": float(self.flagged[known].mean()),
            "stapo/eligible_share": float(eligible[known].mean()),
        }
        for name, rows in (
            ("stapo/entropy_normalized_pool", eligible),
            ("stapo/entropy_shannon_pool", known & ~eligible),
            ("stapo/entropy_outliers", self.flagged),
        ):
            if rows.any():
                found[name] = float(self.entropy[rows].mean())
        for name, rows in (
            ("stapo/outlier_share_normalized_pool", eligible),
            ("stapo/outlier_share_shannon_pool", known & ~eligible),
        ):
            if rows.any():
                found[name] = float(self.flagged[rows].mean())
        return found


def locate(table: RowTable, settings: StapoSettings, similarity: float = 1.0) -> Outliers:
    """Find the turns that stand out.

    The result does not depend on the order of rows, up to the order in which similar anchors are met: those are
    taken in (group, episode, turn) order.

    Args:
        table: Rows with entropies.
        settings: What stands out.
        similarity: 1 groups turns of equal anchors, below 1 those of similar ones (`anchor_similarity`).

    Raises:
        ConfigError: The table has no entropies.
    """
    if table.entropy is None:
        raise ConfigError("STAPO compares the entropies of turns, got a table without that column.")
    order = np.lexsort((table.turn, table.episode, table.group))
    back = np.argsort(order)
    ordered = table.take(order)
    entropy = np.asarray(ordered.entropy, dtype=np.float64)
    known = np.isfinite(entropy)
    groups = np.where(known, step_groups(ordered.group, ordered.anchor, similarity), -1)
    size = np.where(known, np.bincount(groups[known], minlength=1)[groups], 0)
    centred = settings.entropy is EntropyKind.CENTRED
    compared = Pool.CENTRED if centred else Pool.NORMALIZED
    least = 2 if centred else settings.min_anchor_group
    eligible = known & (size >= least) & (settings.entropy is not EntropyKind.SHANNON)
    value = np.where(eligible, _compared(entropy, groups, eligible, settings), entropy)
    flagged = np.zeros(len(entropy), dtype=np.bool_)
    limits = {}
    for pool, rows in ((compared, eligible), (Pool.SHANNON, known & ~eligible)):
        if rows.any():
            limits[pool] = low, high = _limits(value[rows], settings)
            flagged[rows] = (value[rows] > high) | (value[rows] < low)
    if not settings.selective:
        flagged = known
    pools = np.where(eligible, compared, np.where(known, Pool.SHANNON, Pool.UNKNOWN))
    return Outliers(
        flagged=flagged[back],
        entropy=entropy[back],
        value=value[back],
        pool=tuple(Pool(name) for name in pools[back].tolist()),
        group_size=size[back],
        limits=limits,
    )


def _compared(entropy: Floats, groups: Ints, chosen: Bools, settings: StapoSettings) -> Floats:
    """Value of each chosen row inside its group, 0 elsewhere: in standard deviations (unbiased), or in nats."""
    result = np.zeros(len(entropy))
    for number in np.unique(groups[chosen]).tolist():
        members = np.flatnonzero(groups == number)
        values = entropy[members]
        if settings.entropy is EntropyKind.CENTRED:
            result[members] = _differences(values, settings.leave_one_out)
        elif np.ptp(values) >= UNIFORM_ENTROPY:
            result[members] = _against_others(values) if settings.leave_one_out else _against_all(values)
    return result


def _differences(values: Floats, leave_one_out: bool) -> Floats:
    """Difference of each value from the mean of all, or of the others, which is n / (n - 1) times as far."""
    scale = len(values) / (len(values) - 1) if leave_one_out else 1.0
    return np.asarray((values - values.mean()) * scale, dtype=np.float64)


def _against_all(values: Floats) -> Floats:
    return np.asarray((values - values.mean()) / (values.std(ddof=1) + EPS), dtype=np.float64)


def _against_others(values: Floats) -> Floats:
    """Deviation of each value from the mean of the others in their standard deviation; two values have none."""
    result = np.zeros(len(values))
    if len(values) < 3:
        return result
    for place in range(len(values)):
        others = np.delete(values, place)
        # Others that agree to the last digit would make any distance infinite.
        result[place] = (values[place] - others.mean()) / (max(float(others.std(ddof=1)), UNIFORM_ENTROPY) + EPS)
    return result


def _limits(values: Floats, settings: StapoSettings) -> tuple[float, float]:
    low, high = np.percentile(values, [25, 75])
    reach = settings.iqr_lambda * max(float(high - low), settings.iqr_floor)
    lower = float(low) - reach if settings.side is Side.BOTH else -np.inf
    return lower, float(high) + reach

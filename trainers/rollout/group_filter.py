"""Dynamic group filtering: keep groups whose episodes differ, resample the others on new tasks.

A pure state machine. The caller samples `shortfall` groups, adds their outcomes, and repeats until it is
0; nothing here samples. Mixed groups of earlier tries are kept, so each further try asks only for what is missing.
The last try fills up with uniform groups, so the batch size is constant (dynamic sampling of DAPO,
arXiv 2503.14476, with the fill of ARLArena, arXiv 2602.21534).

Every further try must draw new tasks, with the same settings as the first. Success and return are reported over all
sampled episodes, since the kept groups are near one half by construction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent_gym.support.errors import ConfigError, DataError
from trainers.settings.algorithm import UNIFORM_FLOOR, AlgorithmConfig, FilterOn, GroupFilter


@dataclass(frozen=True)
class GroupOutcome:
    """How the episodes of one group ended.

    Raises:
        DataError: When the two columns differ in length.
    """

    group: int
    """Group id, unique over the iteration."""
    returns: tuple[float, ...]
    """Raw return of each episode: env rewards only, no penalties."""
    successes: tuple[bool, ...]
    """Success flag of each episode."""

    def __post_init__(self) -> None:
        if len(self.returns) != len(self.successes):
            raise DataError(
                f"group {self.group} has {len(self.returns)} returns and {len(self.successes)} successes; "
                "expected one of each per episode."
            )

    def is_mixed(self, filter_on: FilterOn) -> bool:
        """Whether the chosen values of the usable episodes (those with a finite return) differ."""
        usable = [place for place, value in enumerate(self.returns) if math.isfinite(value)]
        if filter_on is FilterOn.SUCCESS:
            return is_mixed([float(self.successes[place]) for place in usable])
        return is_mixed([self.returns[place] for place in usable])


def is_mixed(values: Sequence[float]) -> bool:
    """Whether the finite values spread by 1e-6 or more, the floor below which advantages are 0."""
    finite = [value for value in values if math.isfinite(value)]
    return len(finite) > 1 and max(finite) - min(finite) >= UNIFORM_FLOOR


@dataclass(frozen=True)
class FilterPlan:
    """State of one iteration's sampling. Start with `FilterPlan.start`, then `add` until `shortfall` is 0."""

    wanted: int
    """Groups in the batch."""
    max_tries: int
    """Rounds of sampling at most."""
    active: bool
    """Whether uniform groups are replaced."""
    filter_on: FilterOn
    """Value that must differ inside a group."""
    tries: int = 0
    """Rounds so far."""
    seen: tuple[GroupOutcome, ...] = field(default=())
    """All groups sampled in this iteration, in order."""

    @staticmethod
    def start(wanted: int, config: AlgorithmConfig, iteration: int) -> FilterPlan:
        """Begin an iteration.

        Args:
            wanted: Groups in a batch, at least 1.
            config: Reads group_filter, filter_on, max_tries and filter_warmup.
            iteration: Iterations done before this one, from 0.

        Raises:
            ConfigError: When `wanted` or `iteration` is out of range.
        """
        if wanted < 1 or iteration < 0:
            raise ConfigError(
                f"expected at least 1 group and an iteration from 0, got {wanted} groups at iteration {iteration}."
            )
        active = config.group_filter is GroupFilter.DYNAMIC and iteration >= config.filter_warmup
        return FilterPlan(wanted, config.max_tries if active else 1, active, config.filter_on)

    @property
    def mixed(self) -> tuple[GroupOutcome, ...]:
        """Sampled groups whose episodes differ."""
        return tuple(outcome for outcome in self.seen if outcome.is_mixed(self.filter_on))

    @property
    def shortfall(self) -> int:
        """Groups to sample next; 0 when the batch is settled."""
        if self.tries == 0:
            return self.wanted
        if self.tries >= self.max_tries:
            return 0
        return max(self.wanted - len(self.mixed), 0)

    def add(self, outcomes: Iterable[GroupOutcome]) -> FilterPlan:
        """Return the plan after one more try.

        Args:
            outcomes: The groups of this try. More than `shortfall` are welcome; of mixed ones the first are used.

        Raises:
            DataError: When the batch is settled already, or a group id occurs twice.
        """
        if self.shortfall == 0:
            raise DataError(f"the batch is settled after {self.tries} tries; expected no further groups.")
        seen = (*self.seen, *outcomes)
        ids = [outcome.group for outcome in seen]
        if len(set(ids)) != len(ids):
            raise DataError(f"group ids must be unique over an iteration, got {ids}; each try samples new tasks.")
        return replace(self, tries=self.tries + 1, seen=seen)

    def selected(self) -> tuple[int, ...]:
        """Ids of the groups to train on, in the order they were sampled.

        Mixed groups first, then uniform ones until the batch is full; without the filter simply the first ones.

        Raises:
            DataError: When the batch is not settled yet.
        """
        if self.shortfall:
            raise DataError(f"{self.shortfall} groups are still to be sampled; add their outcomes first.")
        if not self.active:
            return tuple(outcome.group for outcome in self.seen[: self.wanted])
        mixed = [outcome.group for outcome in self.mixed]
        kept = set(mixed)
        uniform = [outcome.group for outcome in self.seen if outcome.group not in kept]
        chosen = set([*mixed, *uniform][: self.wanted])
        return tuple(outcome.group for outcome in self.seen if outcome.group in chosen)

    def stats(self) -> dict[str, float]:
        """Metrics over everything sampled, before filtering, named as in `trainers.run.metrics.METRICS`."""
        successes = [flag for outcome in self.seen for flag in outcome.successes]
        returns = [value for outcome in self.seen for value in outcome.returns if math.isfinite(value)]
        n_mixed = len(self.mixed)
        used = min(len(self.seen), self.wanted)
        return {
            "rollout/success": sum(successes) / len(successes) if successes else 0.0,
            "rollout/return": math.fsum(returns) / len(returns) if returns else 0.0,
            "rollout/episodes": float(len(successes)),
            "filter/kept_share": n_mixed / len(self.seen) if self.seen else 0.0,
            "filter/tries": float(self.tries),
            "filter/filled_groups": float(max(used - n_mixed, 0)) if self.active else 0.0,
            "filter/active": float(self.active),
        }

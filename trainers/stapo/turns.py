"""STAPO's part of one iteration: find the outlier turns, then act on those of each minibatch.

What the two steps compute stands in `trainers.stapo.outliers` and `trainers.stapo.term`.

With several processes every rank finds the same outliers, from the entropies of all. A masked prompt can only be
made by the rank that sampled the turn, so the ranks exchange the few there are; each acts on the outliers among its
own rows. Passes of a sharded model are collectives, so a rank with fewer of them takes empty ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from agent_gym.support.errors import DataError
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.policy.token_rows import TokenRow
from trainers.rollout.masked_prompts import PromptSources
from trainers.settings.stapo import StapoSettings
from trainers.stapo.outliers import Outliers, locate
from trainers.stapo.term import SelectiveReport, plan_selective, selective_backward, split_row, turn_of
from trainers.update.batch import Batch
from trainers.update.turn_table import Floats
from trainers.update.types import ScoredRow

Ids = tuple[int, ...]


class OutlierTurns:
    """The outlier turns of one batch, as an extra term of the update.

    Args:
        batch: The batch, a row a turn.
        settings: Settings of STAPO.
        similarity: Similarity of anchors, as for the step groups of the advantage.
        sources: What this process's prompts were rendered from.
        temperature: Sampling temperature.
        max_tokens: Most tokens in a forward pass.
        ranks: The processes that train together; all of them make the same calls.

    Attributes:
        outliers: What stands out; None until `locate` was called.
        rewards: Turn -> R_TA when it was last computed by this process.
        seconds: Wall-clock seconds spent here so far.
    """

    def __init__(
        self,
        batch: Batch,
        settings: StapoSettings,
        sources: PromptSources,
        *,
        similarity: float = 1.0,
        temperature: float = 1.0,
        max_tokens: int = 16_384,
        ranks: Ranks | None = None,
    ) -> None:
        self._batch, self._settings, self._similarity = batch, settings, similarity
        self._sources, self._ranks = sources, ranks or Ranks()
        self._temperature, self._max_tokens = temperature, max_tokens
        self._masked: dict[int, Ids] = {}
        self.outliers: Outliers | None = None
        self.rewards: dict[int, float] = {}
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """Name of the term in metrics."""
        return "stapo"

    @property
    def located(self) -> bool:
        """Whether the outliers are known."""
        return self.outliers is not None

    def locate(self, entropy_R: Floats) -> Outliers:
        """Find the outliers, and make their masked prompts where a term reads those.

        Args:
            entropy_R: Mean token entropy of each turn under the policy that produced the batch; NaN if unknown.

        Raises:
            DataError: A prompt of an outlier is not known to any process.
        """
        with self._timed():
            table = replace(self._batch.table, entropy=entropy_R)
            self.outliers = locate(table, self._settings, self._similarity)
            if self._settings.masks:
                self._mask()
        return self.outliers

    def _mask(self) -> None:
        assert self.outliers is not None
        flagged, segments = self.outliers.flagged, self._settings.mask.segments
        prompts = {turn_of(row): row.ids[: split_row(row)] for row in self._batch.rows if any(row.mask)}
        prompts = {turn: ids for turn, ids in prompts.items() if flagged[turn]}
        mine = {turn: self._sources.masked(ids, segments) for turn, ids in prompts.items() if ids in self._sources}
        for found in self._ranks.gather(mine):
            self._masked |= found
        missing = prompts.keys() - self._masked.keys()
        if missing:
            raise DataError(f"the prompts of {len(missing)} outlier turns were not sampled in this iteration")

    def backward(self, policy: Policy, rows: Sequence[ScoredRow]) -> SelectiveReport | None:
        """Add the gradient of the term over the outliers among the rows of a minibatch.

        Args:
            policy: The policy in training.
            rows: Rows of the whole minibatch, a turn each.

        Returns:
            What this process did; None when there was nothing to do, and then no gradient has changed.
        """
        assert self.outliers is not None
        if not self._settings.acts:
            return None
        with self._timed():
            chosen: list[list[TokenRow]] = [[] for _ in range(self._ranks.size)]
            for item in rows:
                if self.outliers.flagged[turn_of(item.row)]:
                    chosen[item.owner].append(item.row)
            if not any(chosen):
                return None
            plans = [
                plan_selective(policy, part, self._masked, self._settings, self._max_tokens) for part in chosen
            ]
            report, rewards = selective_backward(
                policy,
                chosen[self._ranks.rank],
                plans[self._ranks.rank],
                self._masked,
                self._settings,
                n_outliers=sum(map(len, chosen)),
                temperature=self._temperature,
                passes=max(map(len, plans)),
            )
            self.rewards |= rewards
        return report

    def all_rewards(self) -> dict[int, float]:
        """Return R_TA by turn, from all processes; all of them have to call it."""
        found: dict[int, float] = {}
        for part in self._ranks.gather(self.rewards):
            found |= part
        return found

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start

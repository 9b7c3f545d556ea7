"""Scoring rows before they are trained on: under pi_old, under the reference, and what entropies their turns have.

With several processes each scores its own rows. Passes of a sharded model are collectives, so a rank with fewer
micro-batches than another takes empty ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from trainers.policy.dedup import Kinds, shared_stats
from trainers.policy.logprobs import Scorer
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.policy.token_rows import NO_SEGMENT, TokenRow, pad_rows
from trainers.settings.optim import OptimSettings
from trainers.update.minibatches import micro_batches
from trainers.update.token_batch import TokenBatch, turns
from trainers.update.turn_table import Floats
from trainers.update.types import NO_EPISODE, ScoredRow


@dataclass(frozen=True)
class ScoringPass:
    """Scores rows without gradient.

    Attributes:
        policy: The policy in training, which is pi_old as long as no step was taken.
        reference: Frozen policy of the KL term; None without one.
        settings: Bound on the tokens of a pass, and whether equal rows share one.
        temperature: Sampling temperature, at which log-probabilities are evaluated.
        ranks: The processes that train together.
    """

    policy: Policy
    reference: Scorer | None
    settings: OptimSettings
    temperature: float
    ranks: Ranks

    @torch.no_grad()
    def score(self, rows: Sequence[ScoredRow], *, with_old: bool, with_entropy: bool = False) -> list[ScoredRow]:
        """Return the rows with what was asked for.

        Args:
            rows: Rows of all ranks; each rank scores its own.
            with_old: Score them under pi_old.
            with_entropy: Keep the entropies under pi_old, too.
        """
        if not with_old and self.reference is None:
            return list(rows)
        # Rows of other ranks are marked as scored, so that all ranks know that pi_old is fixed.
        scored = [replace(item, logp_old=torch.zeros(0) if with_old else None) for item in rows]
        limit, share = self.settings.max_tokens_per_microbatch, self.settings.share_equal_rows
        for indices in micro_batches(rows, self.ranks.rank, self.ranks.size, limit, share=share):
            chosen = [rows[index].row for index in indices] or [silent_row(self.policy.pad_id)]
            padded = pad_rows(chosen, self.policy.pad_id, device=self.policy.device)
            kinds = Kinds.of(chosen, share)
            logp_old = logp_ref = entropy_old = None
            if with_old:
                stats = shared_stats(self.policy, padded, kinds, self.temperature, entropy=with_entropy)
                logp_old = stats.logp.cpu()
                entropy_old = None if stats.entropy is None else stats.entropy.cpu()
            if self.reference is not None:
                stats = shared_stats(self.reference, padded, kinds, self.temperature, entropy=False)
                logp_ref = stats.logp.cpu()
            for place, index in enumerate(indices):
                row = rows[index].row
                scored[index] = replace(
                    rows[index],
                    logp_old=_row(logp_old, place, row),
                    logp_ref=_row(logp_ref, place, row),
                    entropy_old=_row(entropy_old, place, row),
                )
        return scored


def turn_entropies(scored: Sequence[ScoredRow], n_turns: int, ranks: Ranks | None = None) -> Floats:
    """Mean entropy of the sampled tokens of each turn, float64 [n_turns].

    Args:
        scored: Rows with entropies; their segments are turn indices below `n_turns`.
        n_turns: Turn rows of the batch.
        ranks: The processes that scored the rows; all of them call this and get the turns of all.

    Returns:
        NaN for turns without a sampled token among the rows.
    """
    ranks = ranks or Ranks()
    sums, counts = np.zeros(n_turns), np.zeros(n_turns)
    for item in scored:
        if item.owner != ranks.rank:
            continue
        assert item.entropy_old is not None
        segments = np.asarray(item.row.segments)
        on = segments != NO_SEGMENT
        np.add.at(sums, segments[on], item.entropy_old.numpy()[on])
        np.add.at(counts, segments[on], 1)
    if ranks.size > 1:
        sums, counts = np.sum(ranks.gather(np.stack([sums, counts])), axis=0)
    means: Floats = np.divide(sums, counts, out=np.full(n_turns, np.nan), where=counts > 0)
    return means


def first_entropies(steps: Sequence[TokenBatch], n_turns: int, ranks: Ranks) -> Floats:
    """Mean entropy of each turn in all ranks' micro-batches of a first step, [n_turns]; NaN where it has none."""
    means = np.full(n_turns, np.nan)
    for tokens in steps:
        assert tokens.entropy is not None
        groups = turns(tokens)
        means[groups.ids.cpu().numpy()] = groups.mean(tokens.clean(tokens.entropy)).cpu().numpy()
    for others in ranks.gather(means):
        means = np.where(np.isnan(means), others, means)
    return means


def silent_row(pad_id: int) -> TokenRow:
    """Return a row without a sampled token, for a pass that other ranks need this one to take."""
    return TokenRow((pad_id,), (False,), (NO_SEGMENT,), NO_EPISODE, logprobs=(0.0,))


def _row(values_BT: torch.Tensor | None, place: int, row: TokenRow) -> torch.Tensor | None:
    """Return the values of one row without its padding."""
    return None if values_BT is None else values_BT[place, : len(row)]

"""From a batch with advantages to optimiser steps.

Rows are scored once by the policy that produced them (pi_old) and, for a KL term, by the reference; then each
pass cuts the batch into minibatches, one optimiser step each, and each minibatch into micro-batches that only
bound memory. Losses are sums over tokens divided by totals of the whole minibatch, so the cut changes nothing.

Where the whole batch is one optimiser step and there is one pass, the policy in training is still pi_old, so the
scoring pass is left out and pi_old's log-probabilities are those of the first forward.

STAPO's term acts on outlier turns, which are found from entropies under pi_old: those of the scoring pass, or of
the first forward where that is left out. Its gradient is added to the minibatch's before the step.

The trajectory-level ratio needs the mean log-ratio of whole episodes. An episode's rows stay in one minibatch;
when that minibatch is cut, one more forward without gradient collects the means first.

With several processes every rank holds the whole batch and makes the same minibatches, but scores and trains on
its own rows of each only (`trainers.policy.ranks.assign_owners`). Passes of a sharded model are collectives, so a
rank with fewer micro-batches than another takes empty ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from agent_gym.support.errors import DataError
from agent_gym.support.seeding import generator
from trainers.policy.dedup import Kinds, shared_stats
from trainers.policy.logprobs import Scorer
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks, assign_owners
from trainers.policy.token_rows import NO_SEGMENT, PaddedRows, TokenRow, pad_rows
from trainers.settings.algorithm import AlgorithmConfig, ImportanceLevel
from trainers.settings.optim import OptimSettings
from trainers.stapo.term import SelectiveReport
from trainers.stapo.turns import Selection
from trainers.update.batch import Batch
from trainers.update.losses import LossOutput, policy_loss
from trainers.update.ratios import EpisodeSums, episode_sums, merge_episode_sums
from trainers.update.schedules import LearningRate
from trainers.update.token_batch import MinibatchTotals, TokenBatch, turns
from trainers.update.turn_table import Floats

_NO_EPISODE = -1


@dataclass(frozen=True, eq=False)
class ScoredRow:
    """A token row with what is fixed during the update.

    Attributes:
        row: Ids and mask, length T.
        old: Log-probabilities under pi_old, float32 [T]; None when the first forward gives them.
        reference: Log-probabilities under the reference, float32 [T]; None without a KL term.
        entropy: Entropies under pi_old, float32 [T]; None when nobody asked for them.
        advantage: Advantage of each token's turn, float32 [T]; None until it is known.
        owner: Rank that trains on the row; on other ranks the tensors are empty.
    """

    row: TokenRow
    old: torch.Tensor | None = None
    reference: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    advantage: torch.Tensor | None = None
    owner: int = 0


@dataclass(frozen=True, eq=False)
class MicroStep:
    """What one micro-batch did; handed to the diagnostics.

    Attributes:
        tokens: Its tensors, detached from the graph.
        loss: The loss and its parts.
        sampler_logp: What the sampler said of the tokens, [B, T]; None after the first pass.
    """

    tokens: TokenBatch
    loss: LossOutput
    sampler_logp: torch.Tensor | None


@dataclass(frozen=True)
class StepReport:
    """One optimiser step.

    Attributes:
        grad_norm: Gradient norm before clipping.
        applied: False when the gradient was not finite and the step was left out.
    """

    grad_norm: float
    applied: bool


Event = MicroStep | SelectiveReport | StepReport


class Updater:
    """Takes optimiser steps on batches.

    Args:
        policy: The policy in training.
        reference: Frozen policy of the KL term; None when its coefficient is 0.
        optimizer: Optimiser over the policy's parameters.
        scheduler: Learning rate, told of every optimiser step.
        algorithm: The algorithm.
        settings: Optimisation settings.
        temperature: Sampling temperature, at which log-probabilities are evaluated.
        importance_cap: Largest weight by which a token counts for what pi_old says of it against what the
            sampler said; None leaves all weights 1.
        ranks: The processes that train together; all of them make the same calls.
    """

    def __init__(
        self,
        policy: Policy,
        reference: Scorer | None,
        optimizer: torch.optim.Optimizer,
        scheduler: LearningRate,
        algorithm: AlgorithmConfig,
        settings: OptimSettings,
        temperature: float,
        importance_cap: float | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.policy = policy
        self.reference = reference
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.algorithm = algorithm
        self.settings = settings
        self.temperature = temperature
        self.importance_cap = importance_cap
        self.ranks = ranks or Ranks()

    def update(
        self,
        batch: Batch,
        advantage_R: Floats,
        shuffle_seed: int,
        scored: Sequence[ScoredRow] | None = None,
        selection: Selection | None = None,
    ) -> Iterator[Event]:
        """Run all passes over a batch.

        Args:
            batch: The batch.
            advantage_R: Advantage of each turn row.
            shuffle_seed: Seed of the order of rows.
            scored: What `score` returned for this batch, where the advantages needed it already.
            selection: STAPO's part of this batch; None without one.

        Yields:
            A `MicroStep` for every micro-batch of this process, a `SelectiveReport` where STAPO's term acted, and a
            `StepReport` after each optimiser step.
        """
        rows = _trainable(batch)
        if not rows:
            return
        if scored is None:
            minibatches = self._minibatches(rows, shuffle_seed)
            single = self.settings.passes == 1 and len(minibatches) == 1
            owned = self._owned(rows, minibatches)
            scored = self._score(owned, with_old=not single, with_entropy=selection is not None)
        if selection is not None and all(item.old is not None for item in scored):
            selection.locate(turn_entropies(scored, len(batch.table), self.ranks))
        scored = self._with_advantages(scored, advantage_R)
        for number in range(self.settings.passes):
            for minibatch in self._minibatches(rows, shuffle_seed + number):
                yield from self._step([scored[index] for index in minibatch], number == 0, selection)

    def score(self, batch: Batch, shuffle_seed: int = 0) -> list[ScoredRow]:
        """Score a batch under pi_old, entropies included, before any update.

        `update` takes the result over, so that this costs a forward pass only where it would have done without:
        one pass over the batch in one optimiser step.

        Args:
            batch: The batch.
            shuffle_seed: That of the update; with several processes it says which of them scores which rows.

        Returns:
            The rows that hold a sampled token, in order.
        """
        rows = _trainable(batch)
        if not rows:
            return []
        owned = self._owned(rows, self._minibatches(rows, shuffle_seed))
        return self._score(owned, with_old=True, with_entropy=True)

    def _owned(self, rows: Sequence[TokenRow], minibatches: Sequence[Sequence[int]]) -> list[ScoredRow]:
        """Return the rows, not scored yet, each with the rank that trains on it."""
        owners = assign_owners(minibatches, [len(row) for row in rows], self.ranks.size)
        return [ScoredRow(row, owner=owner) for row, owner in zip(rows, owners, strict=True)]

    def _with_advantages(self, scored: Sequence[ScoredRow], advantage_R: Floats) -> list[ScoredRow]:
        """Give each sampled token of this rank's rows the advantage of its turn, other tokens 0."""
        # Tokens of no turn have segment -1 and so read the 0 at the end.
        advantages = np.append(advantage_R, 0.0).astype(np.float32)
        return [
            replace(item, advantage=torch.from_numpy(advantages[np.asarray(item.row.segments)]))
            if item.owner == self.ranks.rank
            else item
            for item in scored
        ]

    def _minibatches(self, rows: Sequence[TokenRow], seed: int) -> list[list[int]]:
        """Cut row indices, in a shuffled order, into minibatches; at trajectory level whole episodes.

        They are as equal as can be: the few rows that would be left over would get a whole optimiser step.
        """
        whole = self.algorithm.importance_level is ImportanceLevel.TRAJECTORY
        units: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            units.setdefault(row.episode if whole else index, []).append(index)
        listed = list(units.values())
        size = self.settings.minibatch_rows or len(rows)
        count = -(-len(rows) // size)
        minibatches: list[list[int]] = [[]]
        placed = 0
        for place in generator("minibatches", seed).permutation(len(listed)).tolist():
            if placed * count >= len(rows) * len(minibatches):
                minibatches.append([])
            minibatches[-1] += listed[place]
            placed += len(listed[place])
        return minibatches

    def _plan(self, rows: Sequence[ScoredRow]) -> list[tuple[int, ...]]:
        """Return this rank's micro-batches, indices of rows; empty ones make up the number that a rank needs."""
        plans = []
        for rank in range(self.ranks.size):
            mine = [index for index, item in enumerate(rows) if item.owner == rank]
            kinds = self._kinds([rows[index] for index in mine])
            lengths = [len(rows[index].row) for index in mine]
            cut = kinds.plan(lengths, self.settings.max_tokens_per_microbatch)
            plans.append([tuple(mine[place] for place in places) for places in cut])
        plan = plans[self.ranks.rank]
        return plan + [()] * (max(map(len, plans)) - len(plan))

    def _kinds(self, rows: Sequence[ScoredRow]) -> Kinds:
        return Kinds.of([item.row for item in rows], self.settings.share_equal_rows)

    @torch.no_grad()
    def _score(self, rows: Sequence[ScoredRow], with_old: bool, with_entropy: bool = False) -> list[ScoredRow]:
        if not with_old and self.reference is None:
            return list(rows)
        # Rows of other ranks are marked as scored, so that all ranks know that pi_old is fixed.
        scored = [replace(item, old=torch.zeros(0) if with_old else None) for item in rows]
        for indices in self._plan(rows):
            chosen = [rows[index].row for index in indices] or [_padding_row(self.policy.pad_id)]
            padded = pad_rows(chosen, self.policy.pad_id, device=self.policy.device)
            kinds = Kinds.of(chosen, self.settings.share_equal_rows)
            old = entropy = reference = None
            if with_old:
                stats = shared_stats(self.policy, padded, kinds, self.temperature, entropy=with_entropy)
                old = stats.logp.cpu()
                entropy = None if stats.entropy is None else stats.entropy.cpu()
            if self.reference is not None:
                stats = shared_stats(self.reference, padded, kinds, self.temperature, entropy=False)
                reference = stats.logp.cpu()
            for place, index in enumerate(indices):
                row = rows[index].row
                scored[index] = replace(
                    rows[index],
                    old=_row(old, place, row),
                    reference=_row(reference, place, row),
                    entropy=_row(entropy, place, row),
                )
        return scored

    def _step(self, rows: Sequence[ScoredRow], first: bool, selection: Selection | None) -> Iterator[Event]:
        """Take one optimiser step on a minibatch."""
        parts = [[rows[index] for index in indices] or [self._padding()] for indices in self._plan(rows)]
        padded = [pad_rows([item.row for item in part], self.policy.pad_id) for part in parts]
        totals = MinibatchTotals.sum(_count(item.row) for item in rows)
        sums = self._episode_means(rows, parts, padded)
        self.optimizer.zero_grad(set_to_none=True)
        seen = []
        for part, item in zip(parts, padded, strict=True):
            tokens = self._tokens(part, item, graph=True)
            means = None if sums is None else sums.mean_for(tokens.episode)
            output = policy_loss(tokens, self.algorithm, totals, means)
            output.loss.backward()
            if part[0].row.episode == _NO_EPISODE:
                continue
            seen.append(_detached(tokens))
            yield MicroStep(seen[-1], output, item.sampler_logp if first else None)
        if selection is not None:
            if selection.outliers is None:  # the policy is still pi_old, and the minibatch is the batch
                selection.locate(_first_entropies(seen, len(selection), self.ranks))
            report = selection.backward(
                self.policy,
                [item.row for item in rows],
                [item.owner for item in rows],
                self.temperature,
                self.settings.max_tokens_per_microbatch,
            )
            if report is not None:
                yield report
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.settings.grad_clip or math.inf)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
            self.scheduler.step()
        yield StepReport(float(norm), finite)

    def _padding(self) -> ScoredRow:
        """Return a row without a sampled token, for a pass that other ranks need this one to take."""
        zero = torch.zeros(1)
        reference = None if self.reference is None else zero
        return ScoredRow(_padding_row(self.policy.pad_id), zero, reference, advantage=zero, owner=self.ranks.rank)

    def _episode_means(
        self, rows: Sequence[ScoredRow], parts: Sequence[Sequence[ScoredRow]], padded: Sequence[PaddedRows]
    ) -> EpisodeSums | None:
        if self.algorithm.importance_level is not ImportanceLevel.TRAJECTORY:
            return None
        if len(parts) == 1 and self.ranks.size == 1:
            return None
        device = self.policy.device
        if any(item.old is None for item in rows):  # the policy is still pi_old
            episode = torch.unique(torch.tensor([item.row.episode for item in rows], device=device))
            return EpisodeSums(episode, torch.zeros(len(episode), device=device), torch.ones_like(episode))
        with torch.no_grad():
            sums = merge_episode_sums(
                episode_sums(self._tokens(part, item, graph=False))
                for part, item in zip(parts, padded, strict=True)
            )
        if self.ranks.size == 1:
            return sums
        everyone = self.ranks.gather(EpisodeSums(sums.episode.cpu(), sums.total.cpu(), sums.n_tokens.cpu()))
        sums = merge_episode_sums(everyone)
        return EpisodeSums(sums.episode.to(device), sums.total.to(device), sums.n_tokens.to(device))

    def _tokens(self, part: Sequence[ScoredRow], padded: PaddedRows, graph: bool) -> TokenBatch:
        device = self.policy.device
        padded = padded.to(device)
        stats = shared_stats(
            self.policy,
            padded,
            self._kinds(part),
            self.temperature,
            entropy=graph,
            entropy_gradient=graph and self.algorithm.entropy_coef != 0.0,
        )
        kept = _pad([item.old for item in part], padded, device)
        old = stats.logp.detach() if kept is None else kept
        advantage = _need(_pad([item.advantage for item in part], padded, device))
        if self.importance_cap is not None:
            advantage = advantage * _sampler_weight(old, padded, self.importance_cap)
        return TokenBatch(
            logp_new=stats.logp,
            logp_old=old,
            advantage=advantage,
            mask=padded.mask,
            segment=padded.segment,
            episode=padded.episode,
            logp_ref=_pad([item.reference for item in part], padded, device),
            entropy=stats.entropy,
        )


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
        segments = np.asarray(item.row.segments)
        on = segments != NO_SEGMENT
        np.add.at(sums, segments[on], _need(item.entropy).numpy()[on])
        np.add.at(counts, segments[on], 1)
    if ranks.size > 1:
        sums, counts = np.sum(ranks.gather(np.stack([sums, counts])), axis=0)
    means: Floats = np.divide(sums, counts, out=np.full(n_turns, np.nan), where=counts > 0)
    return means


def _padding_row(pad_id: int) -> TokenRow:
    return TokenRow((pad_id,), (False,), (NO_SEGMENT,), _NO_EPISODE, logprobs=(0.0,))


def _count(row: TokenRow) -> MinibatchTotals:
    """Count the sampled tokens and turns of a row; turns have ids of their own over the whole batch."""
    segments = row.segments or tuple(0 if on else NO_SEGMENT for on in row.mask)
    return MinibatchTotals(row.reply_tokens, len({*segments} - {NO_SEGMENT}))


def _first_entropies(steps: Sequence[TokenBatch], n_turns: int, ranks: Ranks) -> Floats:
    """Mean entropy of each turn in all ranks' micro-batches of a first step, [n_turns]; NaN where it has none."""
    means = np.full(n_turns, np.nan)
    for tokens in steps:
        groups = turns(tokens)
        means[groups.ids.cpu().numpy()] = groups.mean(tokens.clean(_need(tokens.entropy))).cpu().numpy()
    for others in ranks.gather(means):
        means = np.where(np.isnan(means), others, means)
    return means


def _row(values_BT: torch.Tensor | None, place: int, row: TokenRow) -> torch.Tensor | None:
    """Return the values of one row without its padding."""
    return None if values_BT is None else values_BT[place, : len(row)]


def _trainable(batch: Batch) -> list[TokenRow]:
    return [row for row in batch.rows if any(row.mask)]


def _sampler_weight(old: torch.Tensor, padded: PaddedRows, cap: float) -> torch.Tensor:
    """Return min(pi_old / sampler, cap) of each token, [B, T]; 1 where nothing was sampled.

    Every policy term is proportional to a positive factor of the advantage, so a weight of the advantage is a
    weight of the term. Truncated importance sampling: Ionides 2008; for rollout engines, Yao et al. 2025.

    Raises:
        DataError: A row lacks the sampler's log-probabilities.
    """
    if padded.sampler_logp is None:
        raise DataError("rollout.importance_correction needs the sampler's log-probabilities; a row has none")
    gap = torch.where(padded.mask, old.detach() - padded.sampler_logp, 0.0)
    return gap.exp().clamp_max(cap)


def _pad(values: Sequence[torch.Tensor | None], padded: PaddedRows, device: torch.device) -> torch.Tensor | None:
    """Return values of rows as [B, T], right-padded with 0; None when the rows have none."""
    if any(value is None for value in values):
        return None
    values_BT = torch.zeros(padded.input_ids.shape, dtype=torch.float32)
    for place, value in enumerate(values):
        assert value is not None
        values_BT[place, : len(value)] = value
    return values_BT.to(device)


def _need(value: torch.Tensor | None) -> torch.Tensor:
    assert value is not None
    return value


def _detached(tokens: TokenBatch) -> TokenBatch:
    return TokenBatch(
        tokens.logp_new.detach(),
        tokens.logp_old,
        tokens.advantage,
        tokens.mask,
        tokens.segment,
        tokens.episode,
        tokens.logp_ref,
        None if tokens.entropy is None else tokens.entropy.detach(),
    )

"""From a batch with advantages to optimiser steps.

Rows are scored once by the policy that produced them (pi_old) and, for a KL term, by the reference
(`scoring_pass`); then each pass cuts the batch into minibatches, one optimiser step each, and each minibatch into
micro-batches that only bound memory (`minibatches`). Losses are sums over tokens divided by totals of the whole
minibatch, so the cut changes nothing.

Where the whole batch is one optimiser step and there is one pass, the policy in training is still pi_old, so the
scoring pass is left out and pi_old's log-probabilities are those of the first forward.

An extra term (`ExtraTerm`) acts on turns that it chooses by their entropy under pi_old: that of the scoring pass,
or of the first forward where the pass is left out. Its gradient is added to the minibatch's before the step.

The trajectory-level ratio needs the mean log-ratio of whole episodes. An episode's rows stay in one minibatch;
when that minibatch is cut, one more forward without gradient collects the means first.

With several processes every rank holds the whole batch and makes the same minibatches, but scores and trains on
its own rows of each only. Passes of a sharded model are collectives, so a rank with fewer micro-batches than
another takes empty ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from agent_gym.support.errors import DataError
from trainers.policy.dedup import Kinds, shared_stats
from trainers.policy.logprobs import Scorer
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.policy.token_rows import NO_SEGMENT, PaddedRows, TokenRow, pad_rows
from trainers.run.shards import whole
from trainers.settings.algorithm import AlgorithmConfig, ImportanceLevel
from trainers.settings.optim import OptimSettings
from trainers.update.batch import Batch
from trainers.update.losses import policy_loss
from trainers.update.minibatches import assign_owners, cut_minibatches, micro_batches
from trainers.update.ratios import EpisodeSums, episode_sums, merge_episode_sums
from trainers.update.schedules import LearningRate
from trainers.update.scoring_pass import ScoringPass, first_entropies, silent_row, turn_entropies
from trainers.update.token_batch import MinibatchTotals, TokenBatch
from trainers.update.turn_table import Floats
from trainers.update.types import NO_EPISODE, TOKEN_COLUMNS, Event, ExtraTerm, MicroStep, ScoredRow, StepReport


class Updater:
    """Takes optimiser steps on batches.

    Args:
        policy: The policy in training.
        optimizer: Optimiser over the policy's parameters.
        scheduler: Learning rate, told of every optimiser step.
        algorithm: The algorithm.
        settings: Optimisation settings.
        temperature: Sampling temperature, at which log-probabilities are evaluated.
        reference: Frozen policy of the KL term; None when its coefficient is 0.
        importance_cap: Largest weight by which a token counts for what pi_old says of it against what the
            sampler said; None leaves all weights 1.
        ranks: The processes that train together; all of them make the same calls.
    """

    def __init__(
        self,
        policy: Policy,
        optimizer: torch.optim.Optimizer,
        scheduler: LearningRate,
        *,
        algorithm: AlgorithmConfig,
        settings: OptimSettings,
        temperature: float = 1.0,
        reference: Scorer | None = None,
        importance_cap: float | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.policy = policy
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.algorithm = algorithm
        self.settings = settings
        self.temperature = temperature
        self.reference = reference
        self.importance_cap = importance_cap
        self.ranks = ranks or Ranks()
        self._scoring = ScoringPass(policy, reference, settings, temperature, self.ranks)

    def update(
        self,
        batch: Batch,
        advantage_R: Floats,
        shuffle_seed: int,
        *,
        scored: Sequence[ScoredRow] | None = None,
        extra_term: ExtraTerm | None = None,
    ) -> Iterator[Event]:
        """Run all passes over a batch, step by step, as the events are asked for.

        Args:
            batch: The batch.
            advantage_R: Advantage of each turn row.
            shuffle_seed: Seed of the order of rows.
            scored: What `score` returned for this batch, where the advantages needed it already.
            extra_term: A loss term beside the policy loss, made for this batch; None without one.

        Yields:
            A `MicroStep` for every micro-batch of this process, a `TermReport` where the extra term acted, and a
            `StepReport` after each optimiser step.
        """
        rows = _trainable(batch)
        if not rows:
            return
        if scored is None:
            minibatches = self._minibatches(rows, shuffle_seed)
            single = self.settings.passes == 1 and len(minibatches) == 1
            owned = self._owned(rows, minibatches)
            scored = self._scoring.score(owned, with_old=not single, with_entropy=extra_term is not None)
        if extra_term is not None and all(item.logp_old is not None for item in scored):
            extra_term.locate(turn_entropies(scored, len(batch.table), self.ranks))
        scored = self._with_advantages(scored, advantage_R)
        for number in range(self.settings.passes):
            for minibatch in self._minibatches(rows, shuffle_seed + number):
                step = _Step(self, [scored[index] for index in minibatch], first=number == 0)
                yield from step.backward()
                if extra_term is not None:
                    if not extra_term.located:  # the policy is still pi_old, and the minibatch is the batch
                        extra_term.locate(first_entropies(step.seen, len(batch.table), self.ranks))
                    report = extra_term.backward(self.policy, step.rows)
                    if report is not None:
                        yield report
                yield self._apply()

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
        return self._scoring.score(owned, with_old=True, with_entropy=True)

    def _minibatches(self, rows: Sequence[TokenRow], seed: int) -> list[list[int]]:
        by_episode = self.algorithm.importance_level is ImportanceLevel.TRAJECTORY
        return cut_minibatches(rows, self.settings.minibatch_rows, seed, whole_episodes=by_episode)

    def _owned(self, rows: Sequence[TokenRow], minibatches: Sequence[Sequence[int]]) -> list[ScoredRow]:
        """Return the rows, not scored yet, each with the rank that trains on it."""
        owners = assign_owners(minibatches, [len(row) for row in rows], self.ranks.size)
        return [ScoredRow(row, owner=owner) for row, owner in zip(rows, owners, strict=True)]

    def _with_advantages(self, scored: Sequence[ScoredRow], advantage_R: Floats) -> list[ScoredRow]:
        """Give each sampled token of this rank's rows the advantage of its turn, other tokens 0."""
        # Tokens of no turn have segment -1 and so read the 0 at the end.
        advantages = torch.from_numpy(np.append(advantage_R, 0.0).astype(np.float32))
        return [
            replace(item, advantage=advantages[item.row.tensors["segments"]])
            if item.owner == self.ranks.rank
            else item
            for item in scored
        ]

    def _apply(self) -> StepReport:
        """Take the optimiser step, unless the gradient is not finite."""
        limit = self.settings.grad_clip or math.inf
        norm = whole(torch.nn.utils.clip_grad_norm_(self.policy.parameters(), limit))
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
            self.scheduler.step()
        return StepReport(float(norm), finite)


class _Step:
    """The gradient of the policy loss over one minibatch.

    Args:
        updater: Whose policy, algorithm and settings these are.
        rows: Rows of the whole minibatch, those of other ranks included.
        first: Whether this is the first pass, in which the sampler's log-probabilities are compared.

    Attributes:
        rows: The same.
        seen: The micro-batches of this process so far, detached.
    """

    def __init__(self, updater: Updater, rows: Sequence[ScoredRow], *, first: bool) -> None:
        self._updater, self.rows, self._first = updater, rows, first
        self.seen: list[TokenBatch] = []
        settings, ranks = updater.settings, updater.ranks
        plan = micro_batches(
            rows, ranks.rank, ranks.size, settings.max_tokens_per_microbatch, share=settings.share_equal_rows
        )
        self._parts = [[rows[index] for index in indices] or [self._silent()] for indices in plan]
        self._padded = [pad_rows([item.row for item in part], updater.policy.pad_id) for part in self._parts]

    def backward(self) -> Iterator[MicroStep]:
        """Add up the gradients of the micro-batches, from zero on."""
        updater = self._updater
        totals = MinibatchTotals.sum(_count(item.row) for item in self.rows)
        sums = self._episode_means()
        updater.optimizer.zero_grad(set_to_none=True)
        for part, padded in zip(self._parts, self._padded, strict=True):
            tokens = self._tokens(part, padded, graph=True)
            means = None if sums is None else sums.mean_for(tokens.episode)
            output = policy_loss(tokens, updater.algorithm, totals, means)
            output.loss.backward()
            if part[0].row.episode == NO_EPISODE:
                continue
            self.seen.append(_detached(tokens))
            yield MicroStep(self.seen[-1], output, padded.sampler_logp if self._first else None)

    def _silent(self) -> ScoredRow:
        """Return a row for a pass that other ranks need this one to take."""
        zero = torch.zeros(1)
        row = silent_row(self._updater.policy.pad_id)
        logp_ref = None if self._updater.reference is None else zero
        return ScoredRow(row, zero, logp_ref, advantage=zero, owner=self._updater.ranks.rank)

    def _episode_means(self) -> EpisodeSums | None:
        """Return the sums behind the trajectory-level ratio, where one micro-batch does not show whole episodes."""
        ranks = self._updater.ranks
        if self._updater.algorithm.importance_level is not ImportanceLevel.TRAJECTORY:
            return None
        if len(self._parts) == 1 and ranks.size == 1:
            return None
        device = self._updater.policy.device
        if any(item.logp_old is None for item in self.rows):  # the policy is still pi_old
            episode = torch.unique(torch.tensor([item.row.episode for item in self.rows], device=device))
            return EpisodeSums(episode, torch.zeros(len(episode), device=device), torch.ones_like(episode))
        with torch.no_grad():
            sums = merge_episode_sums(
                episode_sums(self._tokens(part, padded, graph=False))
                for part, padded in zip(self._parts, self._padded, strict=True)
            )
        if ranks.size == 1:
            return sums
        everyone = ranks.gather(EpisodeSums(sums.episode.cpu(), sums.total.cpu(), sums.n_tokens.cpu()))
        sums = merge_episode_sums(everyone)
        return EpisodeSums(sums.episode.to(device), sums.total.to(device), sums.n_tokens.to(device))

    def _tokens(self, part: Sequence[ScoredRow], padded: PaddedRows, graph: bool) -> TokenBatch:
        """Score a micro-batch by the policy in training, and lay what is fixed beside it."""
        updater = self._updater
        device = updater.policy.device
        padded = padded.to(device)
        stats = shared_stats(
            updater.policy,
            padded,
            Kinds.of([item.row for item in part], updater.settings.share_equal_rows),
            updater.temperature,
            entropy=graph,
            entropy_gradient=graph and updater.algorithm.entropy_coef != 0.0,
        )
        columns: dict[str, Any] = {
            name: _pad([getattr(item, name) for item in part], padded, device) for name in TOKEN_COLUMNS
        }
        if columns["logp_old"] is None:
            columns["logp_old"] = stats.logp.detach()
        if updater.importance_cap is not None:
            columns["advantage"] *= _sampler_weight(columns["logp_old"], padded, updater.importance_cap)
        return TokenBatch(
            logp_new=stats.logp,
            entropy=stats.entropy,
            mask=padded.mask,
            segment=padded.segment,
            episode=padded.episode,
            **columns,
        )


def _trainable(batch: Batch) -> list[TokenRow]:
    return [row for row in batch.rows if any(row.mask)]


def _count(row: TokenRow) -> MinibatchTotals:
    """Count the sampled tokens and turns of a row; turns have ids of their own over the whole batch."""
    segments = row.segments or tuple(0 if on else NO_SEGMENT for on in row.mask)
    return MinibatchTotals(row.reply_tokens, len({*segments} - {NO_SEGMENT}))


def _sampler_weight(logp_old: torch.Tensor, padded: PaddedRows, cap: float) -> torch.Tensor:
    """Return min(pi_old / sampler, cap) of each token, [B, T]; 1 where nothing was sampled.

    Every policy term is proportional to a positive factor of the advantage, so a weight of the advantage is a
    weight of the term. Truncated importance sampling: Ionides 2008; for rollout engines, Yao et al. 2025.

    Raises:
        DataError: A row lacks the sampler's log-probabilities.
    """
    if padded.sampler_logp is None:
        raise DataError("rollout.importance_correction needs the sampler's log-probabilities; a row has none")
    gap = torch.where(padded.mask, logp_old.detach() - padded.sampler_logp, 0.0)
    return gap.exp().clamp_max(cap)


def _pad(values: Sequence[torch.Tensor | None], padded: PaddedRows, device: torch.device) -> torch.Tensor | None:
    """Return values of rows as [B, T], right-padded with 0; None when the rows have none."""
    there = [value for value in values if value is not None]
    if len(there) < len(values):
        return None
    values_BT = torch.zeros(padded.input_ids.shape, dtype=torch.float32)
    for place, value in enumerate(there):
        values_BT[place, : len(value)] = value
    return values_BT.to(device)


def _detached(tokens: TokenBatch) -> TokenBatch:
    held = {item.name: getattr(tokens, item.name) for item in fields(tokens)}
    detached: dict[str, Any] = {name: None if value is None else value.detach() for name, value in held.items()}
    return TokenBatch(**detached)

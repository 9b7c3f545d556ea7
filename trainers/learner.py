"""One iteration's learning: from the groups collected to an updated policy and the metrics of both."""

from __future__ import annotations

from collections.abc import Iterable

from agent_gym.core.info import FinishReason, StopReason
from agent_gym.support.seeding import derive_seed
from trainers.policy.ranks import Ranks
from trainers.rollout.collect import Collected
from trainers.rollout.masked_prompts import PromptSources
from trainers.settings.run import TrainConfig
from trainers.stapo.turns import OutlierTurns
from trainers.update.advantages import compute_advantages
from trainers.update.batch import Batch, build_batch
from trainers.update.diagnostics import IterationDiagnostics, ReplyRows
from trainers.update.scoring_pass import turn_entropies
from trainers.update.turn_table import finite_episodes
from trainers.update.types import Event, MicroStep, StepReport
from trainers.update.updater import Updater


class Learner:
    """Learns from the groups of an iteration.

    Args:
        config: Settings of the run.
        ranks: The processes of the run.
        sources: What the prompts of the iteration were rendered from, where STAPO masks some of them.
    """

    def __init__(self, config: TrainConfig, ranks: Ranks, sources: PromptSources | None) -> None:
        self._config = config
        self._ranks = ranks
        self._sources = sources

    def learn(
        self, iteration: int, collected: Collected, updater: Updater
    ) -> tuple[dict[str, float], OutlierTurns | None]:
        """Update the policy on the groups collected; returns the iteration's metrics and STAPO's part."""
        algorithm = self._config.algorithm
        batch = build_batch(collected.groups, self._config.env.context, algorithm.format_penalty)
        kept = batch.without(~finite_episodes(batch.table))
        seed = derive_seed(self._config.seed, "shuffle", iteration)
        scored = None
        if algorithm.reads_entropy:
            scored = updater.score(kept, seed)
            batch = batch.with_entropy(turn_entropies(scored, len(batch.table), self._ranks))
        advantages = compute_advantages(batch.table, algorithm)
        outlier_turns = self._outlier_turns(kept)
        events = updater.update(kept, advantages.total, seed, scored=scored, extra_term=outlier_turns)
        mine, skipped = _follow(events)
        everyone = self._ranks.gather_to_main(mine)
        if not self._ranks.is_main:
            return self._ranks.from_main({}), outlier_turns
        # All processes saw all episodes, so that what is said of those is said once.
        diagnostics = everyone[0]
        diagnostics.merge(everyone[1:])
        diagnostics.add_stats({**collected.stats, **advantages.stats})
        _add_replies(diagnostics, collected)
        diagnostics.add_stats(
            {"optim/skipped_steps": float(skipped), "optim/learning_rate": updater.scheduler.rate}
        )
        if outlier_turns is not None and outlier_turns.outliers is not None:
            diagnostics.add_stats(outlier_turns.outliers.stats())
        return self._ranks.from_main(diagnostics.summary()), outlier_turns

    def _outlier_turns(self, batch: Batch) -> OutlierTurns | None:
        """Return STAPO's part of an iteration, where the algorithm has one."""
        config = self._config
        if config.algorithm.stapo is None:
            return None
        assert self._sources is not None
        return OutlierTurns(
            batch,
            config.algorithm.stapo,
            self._sources,
            similarity=config.algorithm.anchor_similarity,
            temperature=config.rollout.temperature,
            max_tokens=config.optim.max_tokens_per_microbatch,
            ranks=self._ranks,
        )


def _follow(events: Iterable[Event]) -> tuple[IterationDiagnostics, int]:
    """Carry out an update; returns what this process did in it, and how many optimiser steps were left out."""
    diagnostics = IterationDiagnostics()
    step = IterationDiagnostics()  # of the optimiser step that is being taken
    skipped = 0
    for event in events:
        if isinstance(event, MicroStep):
            step.add_micro_batch(event.tokens, event.loss)
            if event.sampler_logp is not None:
                logp = event.sampler_logp.to(event.tokens.logp_old.device)
                diagnostics.add_sampler_gap(logp, event.tokens.logp_old, event.tokens.mask)
        elif isinstance(event, StepReport):
            if event.applied:
                diagnostics.merge([step])
                diagnostics.add_optimiser_step(event.grad_norm)
            else:  # its numbers are no losses of a step that was taken
                skipped += 1
            step = IterationDiagnostics()
        else:
            step.add_term(event)
    return diagnostics, skipped


def _add_replies(diagnostics: IterationDiagnostics, collected: Collected) -> None:
    episodes = [episode for group in collected.sampled for episode in group]
    turns = [(number, turn) for number, episode in enumerate(episodes) for turn in episode.turns]
    diagnostics.add_replies(
        ReplyRows(
            episode=[number for number, _ in turns],
            anchor=[turn.anchor for _, turn in turns],
            action=[turn.reply if turn.action is None else turn.action for _, turn in turns],
            n_tokens=[len(turn.reply_ids or ()) for _, turn in turns],
            cut=[turn.finish_reason is FinishReason.MAX_TOKENS for _, turn in turns],
            valid_format=[turn.valid_format for _, turn in turns],
            valid_action=[turn.valid_action for _, turn in turns],
        )
    )
    overflow = sum(episode.stop_reason is StopReason.CONTEXT_OVERFLOW for episode in episodes)
    diagnostics.add_stats(
        {
            "rollout/turns": len(turns) / max(1, len(episodes)),
            "rollout/context_overflow": overflow / max(1, len(episodes)),
        }
    )

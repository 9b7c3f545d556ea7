"""One iteration's learning: from the groups collected to an updated policy and the metrics of both."""

from __future__ import annotations

from agent_gym.core.info import FinishReason, StopReason
from agent_gym.support.seeding import derive_seed
from trainers.policy.ranks import Ranks
from trainers.rollout.collect import Collected
from trainers.rollout.masked_prompts import PromptSources
from trainers.settings.algorithm import ENTROPY_ADVANTAGES
from trainers.settings.run import TrainConfig
from trainers.stapo.term import SelectiveReport
from trainers.stapo.turns import Selection
from trainers.update.advantages import compute_advantages
from trainers.update.batch import Batch, build_batch
from trainers.update.diagnostics import IterationDiagnostics, ReplyRows
from trainers.update.turn_table import finite_episodes
from trainers.update.updater import MicroStep, Updater, turn_entropies


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
    ) -> tuple[dict[str, float], Selection | None]:
        """Update the policy on the groups collected; returns the iteration's metrics and STAPO's part."""
        config = self._config
        ranks = self._ranks
        batch = build_batch(collected.groups, config.env.context, config.algorithm.format_penalty)
        kept = batch.without(~finite_episodes(batch.table))
        seed = derive_seed(config.seed, "shuffle", iteration)
        scored = None
        if config.algorithm.advantage in ENTROPY_ADVANTAGES:
            scored = updater.score(kept, seed)
            batch = batch.with_entropy(turn_entropies(scored, len(batch.table), ranks))
        advantages = compute_advantages(batch.table, config.algorithm)
        diagnostics = IterationDiagnostics()  # of this process's share of the update
        skipped = 0
        step = IterationDiagnostics()  # of the optimiser step that is being taken
        selection = self._selection(kept)
        for event in updater.update(kept, advantages.total, seed, scored, selection):
            if isinstance(event, MicroStep):
                step.add_micro_batch(event.tokens, event.loss)
                if event.sampler_logp is not None:
                    logp = event.sampler_logp.to(event.tokens.logp_old.device)
                    step.add_sampler_gap(logp, event.tokens.logp_old, event.tokens.mask)
                continue
            if isinstance(event, SelectiveReport):
                step.add_selective(event)
                continue
            if event.applied:
                diagnostics.merge([step])
                diagnostics.add_optimiser_step(event.grad_norm)
            else:  # its numbers are no losses of a step that was taken
                skipped += 1
            step = IterationDiagnostics()
        everyone = ranks.gather_to_main(diagnostics)
        if not ranks.is_main:
            return ranks.from_main({}), selection
        # All processes saw all episodes, so that what is said of those is said once.
        diagnostics = everyone[0]
        diagnostics.merge(everyone[1:])
        diagnostics.add_stats({**collected.stats, **advantages.stats})
        _add_replies(diagnostics, collected)
        diagnostics.add_stats(
            {
                "optim/skipped_steps": float(skipped),
                "optim/learning_rate": updater.scheduler.rate,
            }
        )
        if selection is not None and selection.outliers is not None:
            diagnostics.add_stats(selection.outliers.stats())
        return ranks.from_main(diagnostics.summary()), selection

    def _selection(self, batch: Batch) -> Selection | None:
        """Return STAPO's part of an iteration, where the algorithm has one."""
        algorithm = self._config.algorithm
        if algorithm.stapo is None or self._sources is None:
            return None
        return Selection(batch, algorithm.stapo, algorithm.anchor_similarity, self._sources, self._ranks)


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

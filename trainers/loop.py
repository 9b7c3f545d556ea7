"""The training loop: sample groups, filter, compute advantages, update, sync, evaluate, checkpoint.

What an algorithm is stands in `trainers.settings.algorithm`; this file knows no algorithm by name. Everything
random in iteration i derives from the run's seed and i, and the position in the task order is part of a checkpoint,
so a resumed run continues to the same weights as an unbroken one (bit for bit on CPU).

Left out on purpose: asynchronous rollouts, replay buffers, value networks and learned rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from trainers.checkpoints import RunCheckpoints
from trainers.context import RunContext, RunStoppedError
from trainers.evaluate import TEST
from trainers.learner import Learner
from trainers.parts import RunParts, open_parts
from trainers.policy.ranks import Ranks
from trainers.record import RunRecord
from trainers.report import write_report
from trainers.rollout.collect import Collected
from trainers.run.clock import Clock
from trainers.run.folder import RunFolder
from trainers.run.reporter import Reporter

_LEAST_VALID_FORMAT = 0.2
"""Share of replies in the right form below which hardly an episode earns anything."""


class Trainer:
    """One training run, in one process or in each of several.

    Args:
        folder: Run folder, new or to be resumed; only the main process writes to it.
        reporter: Who is told of progress.
        should_stop: See `RunContext`.
        ranks: The processes of the run; all of them run a trainer on the same folder.
    """

    learner_class = Learner

    def __init__(
        self,
        folder: RunFolder,
        reporter: Reporter,
        should_stop: Callable[[], bool] = lambda: False,
        ranks: Ranks | None = None,
    ) -> None:
        self._context = RunContext(folder, folder.config(), reporter, should_stop, ranks or Ranks())
        self._checkpoints = RunCheckpoints(self._context)
        # Made by `run`, and the same in all its iterations.
        self._parts: RunParts
        self._learner: Learner
        self._record: RunRecord

    def run(self) -> dict[str, Any]:
        """Train, from the start or from the last whole checkpoint, and return the summary."""
        context = self._context
        with ExitStack() as stack:
            try:
                self._parts = stack.enter_context(open_parts(context, self._checkpoints.latest))
            except RunStoppedError:
                folder = context.folder
                context.reporter.say(
                    f"Stopped during the cold start. Continue with: agent-gym train --resume {folder.path}"
                )
                return folder.summary()
            self._learner = self.learner_class(context.config, context.ranks, self._parts.sources)
            done = self._parts.first
            if not self._evaluated_before():
                return self._stopped(done)
            self._record = stack.enter_context(closing(RunRecord(context, done)))
            stopping = context.stopping()
            while done < context.config.iterations and self._record.warning is None:
                if stopping:
                    return self._stopped(done)
                stopping = self._iterate(done)
                done += 1
            self._record.close()
            return self._finished(done)

    def _iterate(self, iteration: int) -> bool:
        """Sample, learn, and keep what is to be kept; returns whether the run was asked to stop (it is saved)."""
        clock = Clock()
        collected = self._sample(iteration, clock)
        metrics = self._learn(iteration, collected, clock)
        self._record.episodes(iteration, collected)
        done = iteration + 1
        score = self._evaluate(done, metrics, clock)
        self._record.iteration(iteration, metrics, clock)
        stopping = self._context.stopping()
        config = self._context.config
        last = done == config.iterations or self._record.warning is not None
        if last or stopping or score is not None or done % config.run.checkpoint_every == 0:
            self._checkpoints.save(done, self._parts, score)
        return stopping

    # The steps of an iteration -----------------------------------------------------------------------------

    def _sample(self, iteration: int, clock: Clock) -> Collected:
        parts, config = self._parts, self._context.config
        if parts.sources is not None:
            parts.sources.clear()
        with parts.drawing():
            before = parts.envs.env_seconds()
            collected = parts.collector.collect(iteration)
            playing = parts.envs.env_seconds() - before
        if config.run.stop_on and not config.evaluation.every:
            self._checkpoints.score(iteration, collected.stats["rollout/success"])
        clock.lap("sampling")
        clock.split("sampling", "env", playing)
        return collected

    def _learn(self, iteration: int, collected: Collected, clock: Clock) -> dict[str, float]:
        parts = self._parts
        parts.updater.scheduler.start(iteration)
        metrics, outlier_turns = self._learner.learn(iteration, collected, parts.updater)
        metrics |= parts.envs.metrics()
        found, moved = parts.envs.count_iteration(collected.by_env(len(parts.envs.envs)))
        metrics |= found
        for env in moved:
            self._context.reporter.say(
                f"{env.stage_sentence()} after iteration {iteration + 1}, with {env.options}"
            )
        parts.sampler.sync(parts.policy)
        clock.lap("update")
        if outlier_turns is not None and outlier_turns.located:
            clock.split("update", outlier_turns.name, outlier_turns.seconds)
            self._record.outliers(iteration, collected, outlier_turns)
        return metrics

    def _evaluate(self, done: int, metrics: dict[str, float], clock: Clock) -> float | None:
        """Add the metrics of an evaluation where one is due, and return its success."""
        config = self._context.config
        every = config.evaluation.every
        if not every or done % every or done >= config.iterations:
            return None
        metrics |= self._parts.evaluator.during(f"iteration {done}")
        clock.lap("evaluation")
        return metrics[f"{TEST}/success"]

    # Before and after --------------------------------------------------------------------------------------

    def _evaluated_before(self) -> bool:
        """Evaluate the policy that training starts from, once a run; returns whether that is done."""
        context = self._context
        if "before" in context.ranks.from_main(context.folder.summary()):
            return True
        before = self._parts.evaluator.final("before")
        if before is None:
            return False
        context.folder.update_summary({"before": before})
        if (share := before[TEST]["valid_format"]) < _LEAST_VALID_FORMAT:
            context.reporter.say(
                f"Warning: {share:.0%} of the replies have the right form before training, so there is next "
                "to nothing to reinforce. Clone more (cloning.episodes, cloning.epochs, "
                "cloning.learning_rate), or take a model that keeps to the form."
            )
        return True

    def _finished(self, done: int) -> dict[str, Any]:
        context, parts = self._context, self._parts
        results: dict[str, Any] = {"iterations": done}
        if self._record.warning is not None:
            results["stopped"] = self._return_to_best()
            parts.sampler.sync(parts.policy)
        after = parts.evaluator.final("after")
        if after is None:
            return self._stopped(done)
        summary = context.folder.update_summary({"after": after, **results, "checksum": parts.policy.checksum()})
        if context.ranks.is_main:
            write_report([context.folder.path])
        return summary

    def _return_to_best(self) -> dict[str, Any]:
        """Take the best policy kept, after a warning has ended the run, and return what the summary says of it.

        Checkpoints compare by the success of evaluations; without these by the training success of the iteration
        that began with them.
        """
        context, warning = self._context, self._record.warning
        assert warning is not None
        before = self._record.first_success
        if context.config.evaluation.every:
            before = context.ranks.from_main(context.folder.summary())["before"][TEST]["success"]
        kept = self._checkpoints.return_to_best(self._parts.policy, before)
        context.reporter.say(
            f"Stopped by the detector ({warning.name.value}) after iteration {warning.iteration + 1}. The policy "
            f"is that of step {kept['step']} again ({kept['path']}), the best one kept."
        )
        return {**warning.to_row(), "best": kept}

    def _stopped(self, done: int) -> dict[str, Any]:
        context = self._context
        context.reporter.say(
            f"Stopped after iteration {done} of {context.config.iterations}; everything is saved. Continue with: "
            f"agent-gym train --resume {context.folder.path}"
        )
        return context.folder.summary()

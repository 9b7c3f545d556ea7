"""The training loop: sample groups, filter, compute advantages, update, sync, evaluate, checkpoint.

What an algorithm is stands in `trainers.settings.algorithm`; this file knows no algorithm by name. Everything
random in iteration i derives from the run's seed and i, and the position in the task order is part of a checkpoint,
so a resumed run continues to the same weights as an unbroken one (bit for bit on CPU).

Left out on purpose: asynchronous rollouts, replay buffers, value networks and learned rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

import torch

from agent_gym.play.episode import Episode, EpisodeWriter
from agent_gym.support.errors import DataError
from trainers.cold_start.start import ColdStartStoppedError, Start
from trainers.evaluate import TEST, RunEvaluator
from trainers.learner import Learner
from trainers.policy.devices import configure_torch
from trainers.policy.lora import reference_of
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.preflight import check_parts, check_prompts
from trainers.report import write_report
from trainers.rollout.collect import Collected, GroupCollector
from trainers.rollout.conversation import prompt_encoder
from trainers.rollout.environments import TrainEnvs, prompt_builder
from trainers.rollout.evaluation import summarise_groups
from trainers.rollout.masked_prompts import PromptSources
from trainers.rollout.samplers.base import Sampler
from trainers.rollout.samplers.make import make_sampler
from trainers.run.checkpoint import Checkpoint, CheckpointStore, Savable, open_checkpoint
from trainers.run.clock import Clock
from trainers.run.detector import ADVICE
from trainers.run.folder import CHECKPOINTS, REFERENCE, RunFolder
from trainers.run.reporter import Reporter
from trainers.run.state import OptimizerState
from trainers.run.tracking import NoTracker, RunTracker, Tracker, read_metrics
from trainers.run.warnings import WarningMonitor
from trainers.settings.run import TrainConfig
from trainers.stapo.log import OutlierLog, outlier_rows
from trainers.update.schedules import LearningRate
from trainers.update.updater import Updater

_LEAST_VALID_FORMAT = 0.2
"""Share of replies in the right form below which hardly an episode earns anything."""


class Trainer:
    """One training run, in one process or in each of several.

    Args:
        folder: Run folder, new or to be resumed; only the main process writes to it.
        reporter: Who is told of progress.
        should_stop: Asked after every iteration; True in any process saves and ends the run.
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
        self.folder = folder
        self.config: TrainConfig = folder.config()
        self.reporter = reporter
        self.should_stop = should_stop
        self.ranks = ranks or Ranks()
        self.store = CheckpointStore(folder.checkpoints, keep_last=self.config.run.keep_checkpoints)
        self._sources = None if self.config.algorithm.stapo is None else PromptSources()
        self._learner = self.learner_class(self.config, self.ranks, self._sources)
        self._outliers: OutlierLog | None = None

    def run(self) -> dict[str, Any]:
        """Train, from the start or from the last whole checkpoint, and return the summary."""
        config = self.config
        check_parts(config, self.ranks, started=self.ranks.from_main(self.folder.reference.is_dir()))
        configure_torch(config.run)
        with ExitStack() as stack:
            envs = stack.enter_context(closing(TrainEnvs.make(config, self.ranks.size)))
            check_prompts(envs)
            return self._run(envs, stack)

    # The run ---------------------------------------------------------------------------------------------

    def _run(self, envs: TrainEnvs, stack: ExitStack) -> dict[str, Any]:
        config = self.config
        ranks = self.ranks
        checkpoint = self._latest()
        try:
            policy = Start(self.folder, config, self.reporter, self.should_stop, ranks).policy(envs)
        except ColdStartStoppedError:
            self.reporter.say(
                f"Stopped during the cold start. Continue with: agent-gym train --resume {self.folder.path}"
            )
            return self.folder.summary()
        reference = reference_of(policy) if config.algorithm.kl_coef > 0 else None
        if checkpoint is not None:
            policy.load_weights(checkpoint.model_folder)
        if ranks.size > 1:
            from trainers.policy.sharding import shard

            shard(policy, ranks)
            if isinstance(reference, Policy):
                shard(reference, ranks)
        optimizer = torch.optim.AdamW(
            policy.parameters(),
            lr=config.optim.learning_rate,
            betas=(config.optim.beta1, config.optim.beta2),
            weight_decay=config.optim.weight_decay,
        )
        scheduler = LearningRate(
            optimizer,
            config.optim.learning_rate,
            config.optim.warmup_steps,
            config.optim.schedule,
            config.iterations,
        )
        first = 0
        if checkpoint is not None:
            state = checkpoint.restore(model=policy, optimizer=optimizer, scheduler=scheduler, weights=False)
            first = checkpoint.step
            envs.load_state_dict(state["lanes"])
            self.reporter.say(f"Resuming after iteration {first} of {config.iterations}.")
        sampler = stack.enter_context(closing(make_sampler(policy, config.rollout)))
        evaluator = RunEvaluator(
            config,
            policy,
            sampler,
            envs,
            self.folder.episodes,
            self.reporter,
            self.should_stop,
            ranks,
            lambda: self._drawing(policy),
        )
        collector = GroupCollector(
            envs,
            lambda env: prompt_encoder(
                policy, prompt_builder(env.train.handle, env.settings), config, self._sources
            ),
            sampler,
            config.rollout.sampling(),
            config.algorithm,
            config.rollout.groups,
            config.rollout.group_size,
            config.seed,
            ranks,
        )
        updater = Updater(
            policy,
            optimizer,
            scheduler,
            algorithm=config.algorithm,
            settings=config.optim,
            temperature=config.rollout.temperature,
            reference=reference,
            importance_cap=config.rollout.importance_cap if config.rollout.importance_correction else None,
            ranks=ranks,
        )
        if "before" not in ranks.from_main(self.folder.summary()):
            before = evaluator.final("before")
            if before is None:
                return self._stopped(first)
            self.folder.update_summary({"before": before})
            if (share := before[TEST]["valid_format"]) < _LEAST_VALID_FORMAT:
                self.reporter.say(
                    f"Warning: {share:.0%} of the replies have the right form before training, so there is next "
                    "to nothing to reinforce. Clone more (cloning.episodes, cloning.epochs, "
                    "cloning.learning_rate), or take a model that keeps to the form."
                )
        tracker: Tracker = RunTracker(self.folder.path, first) if ranks.is_main else NoTracker()
        if self._sources is not None and ranks.is_main:
            self._outliers = OutlierLog(self.folder.path, first)
        history = ranks.from_main(read_metrics(self.folder.path) if ranks.is_main else [])
        monitor = WarningMonitor(self.folder.path, config.run.stop_on, history, writes=ranks.is_main)
        done = first
        try:
            stopping = ranks.any(self.should_stop())
            while done < config.iterations and monitor.stopping is None:
                if stopping:
                    return self._stopped(done)
                stopping = self._iterate(done, collector, updater, sampler, evaluator, tracker, envs, monitor)
                done += 1
        finally:
            tracker.close()
        results: dict[str, Any] = {"iterations": done}
        if monitor.stopping is not None:
            results["stopped"] = self._return_to_best(policy, monitor)
            sampler.sync(policy)
        after = evaluator.final("after")
        if after is None:
            return self._stopped(done)
        summary = self.folder.update_summary({"after": after, **results, "checksum": policy.checksum()})
        if ranks.is_main:
            write_report([self.folder.path])
        return summary

    def _latest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, the same one in all processes; None when none was ever written.

        Raises:
            DataError: There are checkpoints, none of them whole: starting over would overwrite the run.
        """
        found, steps = self._same(self.store.latest), self.ranks.from_main(self.store.steps())
        if found is None and steps:
            raise DataError(
                f"none of the {len(steps)} checkpoints in {self.store.root} is whole, so the run cannot go on; "
                "restore one, or start a new run in another folder"
            )
        return found

    def _same(self, choose: Callable[[], Checkpoint | None]) -> Checkpoint | None:
        """Return the checkpoint that the main process chooses."""
        if self.ranks.size == 1:
            return choose()
        chosen = choose() if self.ranks.is_main else None
        path: Path | None = self.ranks.from_main(None if chosen is None else chosen.path)
        return None if path is None else open_checkpoint(path)

    def _return_to_best(self, policy: Policy, monitor: WarningMonitor) -> dict[str, Any]:
        """Load the weights of the best checkpoint into the policy, after a warning has ended the run.

        Checkpoints compare by the success of evaluations; without these by the training success of the iteration
        that began with them. The policy before training takes part, as step 0.

        Returns:
            What the summary says of it.
        """
        warning = monitor.stopping
        assert warning is not None
        before = self.ranks.from_main(self.folder.summary())["before"][TEST]["success"]
        if not self.config.evaluation.every:
            before = monitor.history[0]["rollout/success"]
        best = self._same(self.store.best)
        if best is not None and best.score is not None and best.score >= before:
            best.restore(model=policy)
            kept = {"step": best.step, "score": best.score, "path": f"{CHECKPOINTS}/{best.path.name}"}
        else:
            policy.load_weights(self.folder.reference)
            kept = {"step": 0, "score": before, "path": REFERENCE}
        self.reporter.say(
            f"Stopped by the detector ({warning.name.value}) after iteration {warning.iteration + 1}. The policy "
            f"is that of step {kept['step']} again ({kept['path']}), the best one kept."
        )
        return {**warning.to_row(), "best": kept}

    def _stopped(self, done: int) -> dict[str, Any]:
        self.reporter.say(
            f"Stopped after iteration {done} of {self.config.iterations}; everything is saved. Continue with: "
            f"agent-gym train --resume {self.folder.path}"
        )
        return self.folder.summary()

    def _iterate(
        self,
        iteration: int,
        collector: GroupCollector,
        updater: Updater,
        sampler: Sampler,
        evaluator: RunEvaluator,
        tracker: Tracker,
        envs: TrainEnvs,
        monitor: WarningMonitor,
    ) -> bool:
        """Sample, learn, and keep what is to be kept; returns whether the run was asked to stop (it is saved)."""
        config = self.config
        clock = Clock()
        if self._sources is not None:
            self._sources.clear()
        with self._drawing(updater.policy):
            before = envs.env_seconds()
            collected = collector.collect(iteration)
            playing = envs.env_seconds() - before
        if config.run.stop_on and not config.evaluation.every and self.ranks.is_main:
            self.store.set_score(iteration, collected.stats["rollout/success"])
        clock.lap("sampling")
        clock.split("sampling", "env", playing)
        updater.scheduler.start(iteration)
        metrics, selection = self._learner.learn(iteration, collected, updater)
        metrics |= envs.metrics()
        self._move_on(iteration + 1, collected, envs, metrics)
        sampler.sync(updater.policy)
        clock.lap("update")
        if selection is not None and selection.outliers is not None:
            clock.split("update", "stapo", selection.seconds)
            rewards = selection.all_rewards()
            if self._outliers is not None:
                episodes = [episode for group in collected.groups for episode in group]
                self._outliers.write(iteration, outlier_rows(episodes, selection.outliers, rewards))
        if config.run.episodes_every and iteration % config.run.episodes_every == 0:
            self._record(f"iteration-{iteration:05d}.jsonl", collected)
        done = iteration + 1
        score = None
        if config.evaluation.every and done % config.evaluation.every == 0 and done < config.iterations:
            found = evaluator.during(f"iteration {done}")
            metrics |= found
            score = found[f"{TEST}/success"]
            clock.lap("evaluation")
        state, fresh = monitor.see(iteration, metrics)
        metrics |= state
        tracker.log(iteration, metrics, clock.seconds)
        self.reporter.iteration(done, config.iterations, metrics, clock.total)
        for warning in fresh:
            self.reporter.say(f"Warning ({warning.name.value}): {warning.sentence} {ADVICE[warning.name]}")
        stopping = self.ranks.any(self.should_stop())
        last = done == config.iterations or monitor.stopping is not None
        due = last or done % config.run.checkpoint_every == 0
        if due or stopping or score is not None:
            self._save(done, updater, envs, score)
        return stopping

    def _move_on(self, done: int, collected: Collected, envs: TrainEnvs, metrics: dict[str, float]) -> None:
        """Add the metrics of each environment, and move on the curricula."""
        played: list[list[list[Episode]]] = [[] for _ in envs.envs]
        for place, group in zip(collected.env, collected.sampled, strict=True):
            played[place].append(group)
        found = [summarise_groups(groups) for groups in played]
        if envs.several:
            for env, values in zip(envs.envs, found, strict=True):
                metrics |= {f"env/{env.name}/{name}": value for name, value in values.items()}
        for env in envs.advance([values.get("success") for values in found]):
            self.reporter.say(
                f"Curriculum{' of ' + env.name if env.name else ''}: stage {env.curriculum.stage + 1} of "
                f"{len(env.settings.stages)} after iteration {done}, with {env.current.options}"
            )

    # What is kept ----------------------------------------------------------------------------------------

    def _drawing(self, policy: Policy) -> AbstractContextManager[None]:
        """Return a context in which the processes may draw from a policy without waiting for each other."""
        if self.ranks.size == 1:
            return nullcontext()
        from trainers.policy.sharding import whole_weights

        return whole_weights(policy)

    def _save(self, step: int, updater: Updater, envs: TrainEnvs, score: float | None) -> None:
        model: Savable = updater.policy
        optimizer: torch.optim.Optimizer | OptimizerState = updater.optimizer
        if self.ranks.size > 1:
            from trainers.policy.sharding import Snapshot

            snapshot = Snapshot.take(updater.policy, updater.optimizer, self.ranks)
            if snapshot is None:
                return
            model, optimizer = snapshot, snapshot.optimizer
        self.store.save(
            step,
            model=model,
            optimizer=optimizer,
            scheduler=updater.scheduler,
            extra={"lanes": envs.state_dict()},
            score=score,
        )

    def _record(self, name: str, collected: Collected) -> None:
        if not self.folder.writes:
            return
        path = self.folder.episodes / name
        path.unlink(missing_ok=True)
        with EpisodeWriter(path) as writer:
            for group in collected.sampled[: self.config.run.episodes_groups]:
                for episode in group:
                    writer.write(episode)

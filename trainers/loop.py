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
from trainers.policy.lora import reference_of
from trainers.policy.policy import Policy
from trainers.policy.ranks import World
from trainers.preflight import check_parts, check_prompts
from trainers.report import write_report
from trainers.rollout.collect import Collected, GroupCollector
from trainers.rollout.environments import Lanes
from trainers.rollout.evaluation import summarise_groups
from trainers.rollout.masked_prompts import PromptSources
from trainers.rollout.samplers.base import Sampler
from trainers.run.checkpoint import Checkpoint, CheckpointStore, Savable, open_checkpoint
from trainers.run.clock import Clock
from trainers.run.detector import ADVICE
from trainers.run.folder import CHECKPOINTS, REFERENCE, RunFolder
from trainers.run.reporter import Reporter
from trainers.run.state import OptimizerState
from trainers.run.tracking import NoTracker, RunTracker, Tracker, read_metrics
from trainers.run.warnings import Watch
from trainers.settings.config import TrainConfig
from trainers.setup import (
    configure_torch,
    make_sampler,
    prompt_builder,
    prompt_encoder,
    training_sampling,
)
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
        world: The processes of the run; all of them run a trainer on the same folder.
    """

    learner_class = Learner

    def __init__(
        self,
        folder: RunFolder,
        reporter: Reporter,
        should_stop: Callable[[], bool] = lambda: False,
        world: World | None = None,
    ) -> None:
        self.folder = folder
        self.config: TrainConfig = folder.config()
        self.reporter = reporter
        self.should_stop = should_stop
        self.world = world or World()
        self.store = CheckpointStore(folder.checkpoints, keep_last=self.config.run.keep_checkpoints)
        self._sources = None if self.config.algorithm.stapo is None else PromptSources()
        self._learner = self.learner_class(self.config, self.world, self._sources)
        self._outliers: OutlierLog | None = None

    def run(self) -> dict[str, Any]:
        """Train, from the start or from the last whole checkpoint, and return the summary."""
        config = self.config
        check_parts(config, self.world, started=self.world.from_main(self.folder.reference.is_dir()))
        configure_torch(config)
        with ExitStack() as stack:
            lanes = stack.enter_context(closing(Lanes.make(config, self.world.size)))
            check_prompts(lanes)
            return self._run(lanes, stack)

    # The run ---------------------------------------------------------------------------------------------

    def _run(self, lanes: Lanes, stack: ExitStack) -> dict[str, Any]:
        config = self.config
        world = self.world
        checkpoint = self._latest()
        try:
            policy = Start(self.folder, config, self.reporter, self.should_stop, world).policy(lanes)
        except ColdStartStoppedError:
            self.reporter.say(
                f"Stopped during the cold start. Continue with: agent-gym train --resume {self.folder.path}"
            )
            return self.folder.summary()
        reference = reference_of(policy) if config.algorithm.kl_coef > 0 else None
        if checkpoint is not None:
            policy.load_weights(checkpoint.model_folder)
        if world.size > 1:
            from trainers.policy.sharding import shard

            shard(policy, world)
            if isinstance(reference, Policy):
                shard(reference, world)
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
            lanes.load_state_dict(state["lanes"])
            self.reporter.say(f"Resuming after iteration {first} of {config.iterations}.")
        sampler = stack.enter_context(closing(make_sampler(policy, config)))
        evaluator = RunEvaluator(
            config,
            policy,
            sampler,
            lanes,
            self.folder.episodes,
            self.reporter,
            self.should_stop,
            world,
            lambda: self._drawing(policy),
        )
        collector = GroupCollector(
            lanes,
            lambda lane: prompt_encoder(
                policy, prompt_builder(lane.train.face, lane.settings), config, self._sources
            ),
            sampler,
            training_sampling(config),
            config.algorithm,
            config.rollout.groups,
            config.rollout.group_size,
            config.seed,
            world,
        )
        updater = Updater(
            policy,
            reference,
            optimizer,
            scheduler,
            config.algorithm,
            config.optim,
            config.rollout.temperature,
            config.rollout.importance_cap if config.rollout.importance_correction else None,
            world,
        )
        if "before" not in world.from_main(self.folder.summary()):
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
        tracker: Tracker = RunTracker(self.folder.path, first) if world.is_main else NoTracker()
        if self._sources is not None and world.is_main:
            self._outliers = OutlierLog(self.folder.path, first)
        history = world.from_main(read_metrics(self.folder.path) if world.is_main else [])
        watch = Watch(self.folder.path, config.run.stop_on, history, writes=world.is_main)
        done = first
        try:
            stopping = world.any(self.should_stop())
            while done < config.iterations and watch.stopping is None:
                if stopping:
                    return self._stopped(done)
                stopping = self._iterate(done, collector, updater, sampler, evaluator, tracker, lanes, watch)
                done += 1
        finally:
            tracker.close()
        results: dict[str, Any] = {"iterations": done}
        if watch.stopping is not None:
            results["stopped"] = self._return_to_best(policy, watch)
            sampler.sync(policy)
        after = evaluator.final("after")
        if after is None:
            return self._stopped(done)
        summary = self.folder.update_summary({"after": after, **results, "checksum": policy.checksum()})
        if world.is_main:
            write_report([self.folder.path])
        return summary

    def _latest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, the same one in all processes; None when none was ever written.

        Raises:
            DataError: There are checkpoints, none of them whole: starting over would overwrite the run.
        """
        found, steps = self._same(self.store.latest), self.world.from_main(self.store.steps())
        if found is None and steps:
            raise DataError(
                f"none of the {len(steps)} checkpoints in {self.store.root} is whole, so the run cannot go on; "
                "restore one, or start a new run in another folder"
            )
        return found

    def _same(self, choose: Callable[[], Checkpoint | None]) -> Checkpoint | None:
        """Return the checkpoint that the main process chooses."""
        if self.world.size == 1:
            return choose()
        chosen = choose() if self.world.is_main else None
        path: Path | None = self.world.from_main(None if chosen is None else chosen.path)
        return None if path is None else open_checkpoint(path)

    def _return_to_best(self, policy: Policy, watch: Watch) -> dict[str, Any]:
        """Load the weights of the best checkpoint into the policy, after a warning has ended the run.

        Checkpoints compare by the success of evaluations; without these by the training success of the iteration
        that began with them. The policy before training takes part, as step 0.

        Returns:
            What the summary says of it.
        """
        warning = watch.stopping
        assert warning is not None
        before = self.world.from_main(self.folder.summary())["before"][TEST]["success"]
        if not self.config.evaluation.every:
            before = watch.history[0]["rollout/success"]
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
        lanes: Lanes,
        watch: Watch,
    ) -> bool:
        """Sample, learn, and keep what is to be kept; returns whether the run was asked to stop (it is saved)."""
        config = self.config
        clock = Clock()
        if self._sources is not None:
            self._sources.clear()
        with self._drawing(updater.policy):
            before = lanes.env_seconds()
            collected = collector.collect(iteration)
            playing = lanes.env_seconds() - before
        if config.run.stop_on and not config.evaluation.every and self.world.is_main:
            self.store.set_score(iteration, collected.stats["rollout/success"])
        clock.lap("sampling")
        clock.split("sampling", "env", playing)
        updater.scheduler.start(iteration)
        metrics, selection = self._learner.learn(iteration, collected, updater)
        metrics |= lanes.metrics()
        self._move_on(iteration + 1, collected, lanes, metrics)
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
        state, fresh = watch.see(iteration, metrics)
        metrics |= state
        tracker.log(iteration, metrics, clock.seconds)
        self.reporter.iteration(done, config.iterations, metrics, clock.total)
        for warning in fresh:
            self.reporter.say(f"Warning ({warning.name.value}): {warning.sentence} {ADVICE[warning.name]}")
        stopping = self.world.any(self.should_stop())
        last = done == config.iterations or watch.stopping is not None
        due = last or done % config.run.checkpoint_every == 0
        if due or stopping or score is not None:
            self._save(done, updater, lanes, score)
        return stopping

    def _move_on(self, done: int, collected: Collected, lanes: Lanes, metrics: dict[str, float]) -> None:
        """Add the metrics of each environment, and move on the curricula."""
        played: list[list[list[Episode]]] = [[] for _ in lanes.lanes]
        for place, group in zip(collected.lane, collected.sampled, strict=True):
            played[place].append(group)
        found = [summarise_groups(groups) for groups in played]
        if lanes.several:
            for lane, values in zip(lanes.lanes, found, strict=True):
                metrics |= {f"env/{lane.name}/{name}": value for name, value in values.items()}
        for lane in lanes.advance([values.get("success") for values in found]):
            self.reporter.say(
                f"Curriculum{' of ' + lane.name if lane.name else ''}: stage {lane.course.stage + 1} of "
                f"{len(lane.settings.stages)} after iteration {done}, with {lane.current.options}"
            )

    # What is kept ----------------------------------------------------------------------------------------

    def _drawing(self, policy: Policy) -> AbstractContextManager[None]:
        """Return a context in which the processes may draw from a policy without waiting for each other."""
        if self.world.size == 1:
            return nullcontext()
        from trainers.policy.sharding import whole_weights

        return whole_weights(policy)

    def _save(self, step: int, updater: Updater, lanes: Lanes, score: float | None) -> None:
        model: Savable = updater.policy
        optimizer: torch.optim.Optimizer | OptimizerState = updater.optimizer
        if self.world.size > 1:
            from trainers.policy.sharding import Snapshot

            snapshot = Snapshot.take(updater.policy, updater.optimizer, self.world)
            if snapshot is None:
                return
            model, optimizer = snapshot, snapshot.optimizer
        self.store.save(
            step,
            model=model,
            optimizer=optimizer,
            scheduler=updater.scheduler,
            extra={"lanes": lanes.state_dict()},
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

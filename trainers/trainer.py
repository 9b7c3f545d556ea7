"""The training loop: sample groups, filter, compute advantages, update, sync, evaluate, checkpoint.

What an algorithm is stands in `trainers.algorithms`; this file knows no algorithm by name. Everything random in
iteration i derives from the run's seed and i, and the position in the task order is part of a checkpoint, so a
resumed run continues to the same weights as an unbroken one (bit for bit on CPU).

Left out on purpose: asynchronous rollouts, replay buffers, value networks and learned rewards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from agent_gym.core.driver import EpisodeRequest
from agent_gym.core.episode import Episode, EpisodeWriter
from agent_gym.core.errors import ConfigError, DataError
from agent_gym.core.info import FinishReason, StopReason
from agent_gym.core.prompts import PromptBuilder
from agent_gym.core.seeding import derive_seed
from agent_gym.core.tasks import TaskSet
from trainers.advantages import compute_advantages
from trainers.algorithms import ENTROPY_ADVANTAGES
from trainers.batch import Batch, build_batch
from trainers.checkpoint import Checkpoint, CheckpointStore, Savable, open_checkpoint
from trainers.cloning import CloningStep, clone
from trainers.coldstart import ExpertEpisode, corpus, expert_rows, play_expert
from trainers.collect import Collected, GroupCollector
from trainers.config import TINY, SamplerKind, TrainConfig
from trainers.detector import ADVICE
from trainers.diagnostics import IterationDiagnostics, ReplyRows
from trainers.distributed import World
from trainers.evaluation import Evaluation, summarise_groups
from trainers.lanes import Lanes
from trainers.lora import reference_of
from trainers.masking import PromptSources
from trainers.mixture import apportion
from trainers.outlier_log import OutlierLog, outlier_rows
from trainers.policy import Policy
from trainers.report import write_report
from trainers.rows import finite_episodes
from trainers.run_evaluation import TEST, RunEvaluator
from trainers.run_folder import CHECKPOINTS, REFERENCE, RunFolder
from trainers.samplers.base import Sampler
from trainers.schedules import LearningRate
from trainers.selection import Selection
from trainers.setup import (
    configure_torch,
    load_policy,
    load_trained,
    make_sampler,
    prepare_training,
    prompt_builder,
    prompt_encoder,
    tiny_policy,
    training_sampling,
)
from trainers.stapo import SelectiveReport
from trainers.tasks import TaskSampler
from trainers.tracking import NoTracker, RunTracker, Tracker, read_metrics
from trainers.training_state import OptimizerState
from trainers.update import MicroStep, Updater, turn_entropies
from trainers.watch import Watch

_TOKENIZER_EPISODES = 100  # oracle episodes that a tokenizer is trained on when none are cloned


class Reporter(Protocol):
    """What the loop tells whoever watches; see `trainers.console`."""

    def say(self, text: str) -> None:
        """Show one line."""

    def phase(self, name: str, total: int) -> Any:
        """Return a context manager whose value advances a progress bar when called."""

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Show the metrics of one iteration."""

    def evaluation(self, when: str, evaluation: Evaluation) -> None:
        """Show an evaluation."""


class Trainer:
    """One training run, in one process or in each of several.

    Args:
        folder: Run folder, new or to be resumed; only the main process writes to it.
        reporter: Who is told of progress.
        should_stop: Asked after every iteration; True in any process saves and ends the run.
        world: The processes of the run; all of them run a trainer on the same folder.
    """

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
        self._outliers: OutlierLog | None = None

    def run(self) -> dict[str, Any]:
        """Train, from the start or from the last whole checkpoint, and return the summary."""
        config = self.config
        configure_torch(config)
        if self.world.size > 1 and config.rollout.sampler is not SamplerKind.HF:
            raise ConfigError(
                f"rollout.sampler={config.rollout.sampler.value!r} reads the weights of one process, and "
                f"the policy is spread over {self.world.size}; use rollout.sampler='{SamplerKind.HF.value}'"
            )
        with closing(Lanes.make(config, self.world.size)) as lanes:
            return self._run(lanes)

    # The run ---------------------------------------------------------------------------------------------

    def _run(self, lanes: Lanes) -> dict[str, Any]:
        config = self.config
        world = self.world
        checkpoint = self._latest()
        policy = self._start_policy(lanes)
        reference = reference_of(policy) if config.algorithm.kl_coef > 0 else None
        if checkpoint is not None:
            policy.load_weights(checkpoint.model_folder)
        if world.size > 1:
            from trainers.sharding import shard

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
        sampler = make_sampler(policy, config)
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
        clock = _Clock()
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
        metrics, selection = self._learn(iteration, collected, updater)
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

    def _learn(
        self, iteration: int, collected: Collected, updater: Updater
    ) -> tuple[dict[str, float], Selection | None]:
        """Update the policy on the groups collected; returns the iteration's metrics and STAPO's part."""
        config = self.config
        world = self.world
        batch = build_batch(collected.groups, config.env.context, config.algorithm.format_penalty)
        kept = batch.without(~finite_episodes(batch.table))
        seed = derive_seed(config.seed, "shuffle", iteration)
        scored = None
        if config.algorithm.advantage in ENTROPY_ADVANTAGES:
            scored = updater.score(kept, seed)
            batch = batch.with_entropy(turn_entropies(scored, len(batch.table), world))
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
        everyone = world.gather_to_main(diagnostics)
        if not world.is_main:
            return world.from_main({}), selection
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
        return world.from_main(diagnostics.summary()), selection

    def _selection(self, batch: Batch) -> Selection | None:
        """Return STAPO's part of an iteration, where the algorithm has one."""
        algorithm = self.config.algorithm
        if algorithm.stapo is None or self._sources is None:
            return None
        return Selection(batch, algorithm.stapo, algorithm.anchor_similarity, self._sources, self.world)

    # Start and tasks -------------------------------------------------------------------------------------

    def _start_policy(self, lanes: Lanes) -> Policy:
        """Return the policy after the cold start, loaded if an earlier part of the run made it."""
        config = self.config
        device = self.world.device(config.device)
        made = self.world.from_main(self.folder.reference.is_dir())
        if not made and self.world.size == 1:
            return self._cold_start(lanes, device)
        if not made:
            self.world.main_first("cold start", lambda: self._cold_start(lanes, device))
        return self._prepared(load_trained(self.folder.reference, config.model, device))

    def _cold_start(self, lanes: Lanes, device: str) -> Policy:
        """Make the policy that training starts from, and keep it."""
        config = self.config
        started = time.perf_counter()
        tiny = config.model.path == TINY
        experts = self._experts(lanes, config.cloning.episodes or (_TOKENIZER_EPISODES if tiny else 0))
        if tiny:
            texts = [text for builder, played in experts for text in corpus(played, builder)]
            grammars = [lane.train.face.env.reply_grammar for lane in lanes.lanes]
            policy = tiny_policy(texts, config.model, config.seed, device, grammars)
        else:
            policy = load_policy(config.model, device)
        policy = self._prepared(policy)
        n_experts = sum(len(played) for _, played in experts)
        report: dict[str, Any] = {"parameters": policy.n_parameters, "oracle_episodes": n_experts}
        if config.cloning.episodes:
            rows = [
                row
                for builder, played in experts
                for row in expert_rows(played, prompt_encoder(policy, builder, config), policy)
            ]
            steps = config.cloning.epochs * -(-len(rows) // config.cloning.batch_size)
            with self.reporter.phase("Cloning", steps) as advance:

                def progress(step: CloningStep) -> None:
                    advance(f"loss {step.loss:.3f}, action accuracy {step.content_accuracy:.2f}")

                result = clone(
                    policy, rows, config.cloning, seed=derive_seed(config.seed, "cloning"), progress=progress
                )
            report |= {"rows": len(rows), "steps": result.steps, "loss": result.losses[-1]}
        report["seconds"] = round(time.perf_counter() - started, 2)
        self.folder.save_reference(policy)
        self.folder.update_summary({"cold_start": report})
        return policy

    def _prepared(self, policy: Policy) -> Policy:
        for note in prepare_training(policy, self.config):
            self.reporter.say(note)
        return policy

    def _experts(self, lanes: Lanes, count: int) -> list[tuple[PromptBuilder, list[ExpertEpisode]]]:
        """Play the oracle in every environment, as often as its weight says, at the first stage."""
        config = self.config
        found: list[tuple[PromptBuilder, list[ExpertEpisode]]] = []
        for lane, share in zip(lanes.lanes, apportion(count, [lane.weight for lane in lanes.lanes]), strict=True):
            builder = prompt_builder(lane.train.face, lane.settings)
            if not share:
                found.append((builder, []))
                continue
            ids = TaskSampler(_outside_pool(lane.train.face.env.tasks, config), config.seed).draw(share)
            requests = [EpisodeRequest(task, derive_seed(config.seed, "expert", task)) for task in ids]
            of = f" of {lane.name}" if lane.name else ""
            with self.reporter.phase(f"Oracle episodes{of}", len(requests)) as advance:
                played = play_expert(
                    lane.train.face,
                    lane.train.runner,
                    requests,
                    config.cloning.min_score,
                    config.cloning.noise,
                    lambda *_, advance=advance: advance(),
                )
            found.append((builder, played))
        return found

    # What is kept ----------------------------------------------------------------------------------------

    def _drawing(self, policy: Policy) -> AbstractContextManager[None]:
        """Return a context in which the processes may draw from a policy without waiting for each other."""
        if self.world.size == 1:
            return nullcontext()
        from trainers.sharding import whole_weights

        return whole_weights(policy)

    def _save(self, step: int, updater: Updater, lanes: Lanes, score: float | None) -> None:
        model: Savable = updater.policy
        optimizer: torch.optim.Optimizer | OptimizerState = updater.optimizer
        if self.world.size > 1:
            from trainers.sharding import Snapshot

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


def _outside_pool(tasks: TaskSet, config: TrainConfig) -> TaskSet:
    """Return the tasks that cloning may play: all but the pool, so that the pool is new to the policy."""
    size = config.env.pool_size
    if size is None:
        return tasks
    if len(tasks.ids) <= size:
        raise ConfigError(
            f"env.pool_size={size} takes all {len(tasks.ids)} tasks of split {tasks.split!r}, so that none is left "
            "to clone on; lower it"
        )
    return tasks.subset(tasks.ids[size : size + max(config.cloning.episodes, _TOKENIZER_EPISODES)])


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


class _Clock:
    """Wall-clock seconds by phase."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now

    def split(self, name: str, part: str, seconds: float) -> None:
        """Count some seconds of a phase under a name of their own."""
        self.seconds[name] -= seconds
        self.seconds[part] = seconds

    @property
    def total(self) -> float:
        return time.perf_counter() - self._start


@contextmanager
def _nothing() -> Iterator[Callable[..., None]]:
    yield lambda *_: None


class SilentReporter:
    """Says nothing; for tests and for embedding the trainer."""

    def say(self, text: str) -> None:
        """Ignore."""

    def phase(self, name: str, total: int) -> Any:
        """Return a context whose value does nothing."""
        return _nothing()

    def iteration(self, number: int, total: int, metrics: dict[str, float], seconds: float) -> None:
        """Ignore."""

    def evaluation(self, when: str, evaluation: Evaluation) -> None:
        """Ignore."""

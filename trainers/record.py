"""What is kept and told of every iteration: metrics, warnings, samples of episodes, outlier turns."""

from __future__ import annotations

from agent_gym.play.episode import EpisodeWriter
from trainers.context import RunContext
from trainers.rollout.collect import Collected
from trainers.run.clock import Clock
from trainers.run.detector import ADVICE, RunWarning
from trainers.run.tracking import NoTracker, RunTracker, Tracker, read_metrics
from trainers.run.warnings import WarningMonitor
from trainers.stapo.log import OutlierLog, outlier_rows
from trainers.stapo.turns import OutlierTurns


class RunRecord:
    """Writes the record of a run, in its main process; the others make the same calls.

    Args:
        context: The run.
        first: First iteration that will be recorded; what is there of it and of later ones is dropped.
    """

    def __init__(self, context: RunContext, first: int) -> None:
        self._context = context
        folder, ranks = context.folder.path, context.ranks
        self._tracker: Tracker = RunTracker(folder, first) if ranks.is_main else NoTracker()
        selective = context.config.algorithm.stapo is not None
        self._outliers = OutlierLog(folder, first) if selective and ranks.is_main else None
        history = ranks.from_main(read_metrics(folder) if ranks.is_main else [])
        self._monitor = WarningMonitor(folder, context.config.run.stop_on, history, writes=ranks.is_main)

    @property
    def warning(self) -> RunWarning | None:
        """The warning that ends the run, or None."""
        return self._monitor.stopping

    @property
    def first_success(self) -> float:
        """Training success of the first iteration."""
        return float(self._monitor.history[0]["rollout/success"])

    def episodes(self, iteration: int, collected: Collected) -> None:
        """Write a sample of an iteration's episodes, where one is due."""
        run = self._context.config.run
        if not self._context.folder.writes or not run.episodes_every or iteration % run.episodes_every:
            return
        path = self._context.folder.episodes / f"iteration-{iteration:05d}.jsonl"
        path.unlink(missing_ok=True)
        with EpisodeWriter(path) as writer:
            for group in collected.sampled[: run.episodes_groups]:
                for episode in group:
                    writer.write(episode)

    def outliers(self, iteration: int, collected: Collected, turns: OutlierTurns) -> None:
        """Write the outlier turns of an iteration. All processes have to call it."""
        if turns.outliers is None:
            return
        rewards = turns.all_rewards()
        if self._outliers is not None:
            episodes = [episode for group in collected.groups for episode in group]
            self._outliers.write(iteration, outlier_rows(episodes, turns.outliers, rewards))

    def iteration(self, iteration: int, metrics: dict[str, float], clock: Clock) -> None:
        """Write and show the metrics of an iteration, and what they warn of."""
        states, fresh = self._monitor.see(iteration, metrics)
        metrics = {**metrics, **states}
        self._tracker.log(iteration, metrics, clock.seconds)
        reporter = self._context.reporter
        reporter.iteration(iteration + 1, self._context.config.iterations, metrics, clock.total)
        for warning in fresh:
            reporter.say(f"Warning ({warning.name.value}): {warning.sentence} {ADVICE[warning.name]}")

    def close(self) -> None:
        """Close the files."""
        self._tracker.close()

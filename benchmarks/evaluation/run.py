"""Evaluation of an agent on a fixed list of tasks, with results that say what they are results of.

`benchmarks.evaluation.plan` says what is played. Finished episodes are appended to a file beside the result as
they end, so an interrupted evaluation goes on where it stopped and counts each episode once.
Episodes in which the environment or a tool failed are kept apart, and played again when it goes on.

Left out on purpose: training, and any judgement of an agent from its rewards. Success is the environment's.
"""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from agent_gym._version import __version__
from agent_gym.core.info import StopReason
from agent_gym.play.driver import EnvHandle, play_episodes
from agent_gym.play.episode import Episode, EpisodeWriter, read_episodes
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner, InProcessRunner
from agent_gym.support.errors import AgentGymWarning, DataError
from benchmarks.evaluation.agents import AgentSettings, Contestant, make_agent
from benchmarks.evaluation.agents.estimate import Estimate
from benchmarks.evaluation.agents.ledger import add_spent
from benchmarks.evaluation.output import exclusive_output, refuse_overwrite, require_same
from benchmarks.evaluation.plan import EvalConfig, chosen_tasks, make_plan, shortfall
from benchmarks.evaluation.results import ENVIRONMENT, EpisodeRow, EvaluationResult

_WRITE_SECONDS = 30.0


def evaluate(
    config: EvalConfig,
    agent: str | Callable[[EnvHandle], Contestant],
    *,
    on_plan: Callable[[int, int], None] | None = None,
    on_estimate: Callable[[Estimate], None] | None = None,
    on_episode: Callable[[EpisodeRow], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> EvaluationResult:
    """Evaluate an agent.

    Args:
        config: What to play.
        agent: Name of an agent (see `benchmarks.evaluation.agents`), or a function that makes one for the
            environment.
        on_plan: Called once with the episodes planned and those already played.
        on_estimate: Called before anything is asked of a service that is paid for.
        on_episode: Called with the row of each episode that ends, errors included.
        on_notice: Called with a sentence that a person should read: fewer tasks are there than were asked for.

    Returns:
        The result, which is also written to `config.output`. When playing is interrupted, what was played is
        written first.

    Raises:
        ConfigError: The result file exists and `resume` is not set, or it is of another evaluation.
        BusyError: Another process evaluates into the result file.
        AgentGymError: The environment, a task or the agent cannot be made.
    """
    with exclusive_output(config), _prepared(config, agent) as evaluation:
        if on_notice is not None and evaluation.shortfall:
            on_notice(evaluation.shortfall)
        return evaluation.run(on_plan, on_estimate, on_episode)


def estimate(config: EvalConfig, agent: str | Callable[[EnvHandle], Contestant]) -> Estimate | None:
    """Return what an evaluation will take, without asking the agent anything.

    Args:
        config: What would be played; with `resume`, what is missing is estimated.
        agent: As for `evaluate`.

    Returns:
        The estimate, None for agents that ask no service.

    Raises:
        AgentGymError: As for `evaluate`.
    """
    refuse_overwrite(config)
    with _prepared(config, agent) as evaluation:
        return evaluation.estimate()


@contextmanager
def _prepared(config: EvalConfig, agent: str | Callable[[EnvHandle], Contestant]) -> Iterator[_Evaluation]:
    """Make environment, agent and plan; close them in the end."""
    handle = EnvHandle.make(config.env_id, config.env_options())
    contestant: Contestant | None = None
    try:
        if isinstance(agent, str):
            contestant = make_agent(
                agent, handle, AgentSettings(config.parallel, config.device, config.agent_options)
            )
        else:
            contestant = agent(handle)
        handle = dataclasses.replace(handle, reply_mode=contestant.reply_mode)
        ids = chosen_tasks(config, handle)
        yield _Evaluation(config, handle, contestant, ids, make_plan(config, ids))
    finally:
        if contestant is not None and contestant.close is not None:
            contestant.close()
        handle.env.close()


_Key: TypeAlias = tuple[str | None, int | None]


def _key(request: EpisodeRequest) -> _Key:
    """Return what tells the record of a planned episode apart."""
    return request.task_id, request.seed


class _Evaluation:
    """One evaluation, new or going on."""

    def __init__(
        self,
        config: EvalConfig,
        handle: EnvHandle,
        contestant: Contestant,
        ids: Sequence[str],
        plan: Sequence[EpisodeRequest],
    ) -> None:
        self.config, self.handle, self.contestant, self.plan = config, handle, contestant, plan
        self.rows: dict[_Key, EpisodeRow] = {}
        self._begin = time.perf_counter()
        self._seconds_before = 0.0
        self._spent_before: Mapping[str, Any] | None = None
        self._written = 0.0
        self.shortfall = shortfall(config, handle)
        tasks: dict[str, Any] = {"count": len(ids), "digest": handle.env.tasks_digest(ids)}
        if world := handle.env.world_digest():
            tasks["world"] = world
        self.header: dict[str, Any] = {
            "env_id": handle.env_id,
            "env_kwargs": _plain(handle.options),
            "split": handle.env.tasks.split,
            "tasks": tasks,
            "seeds": list(config.seeds),
            "max_turns": handle.env.turn_limit,
            "agent": {"spec": contestant.spec, "reply_mode": contestant.reply_mode.value, **contestant.identity},
        }

    def run(
        self,
        on_plan: Callable[[int, int], None] | None,
        on_estimate: Callable[[Estimate], None] | None,
        on_episode: Callable[[EpisodeRow], None] | None,
    ) -> EvaluationResult:
        self._restore(repair=True)
        missing = self._missing()
        if on_plan is not None:
            on_plan(len(self.plan), len(self.rows))
        if on_estimate is not None and missing:
            found = self._estimate(missing)
            if found is not None:
                on_estimate(found)
        self._begin = time.perf_counter()
        self._write()
        try:
            if missing:
                self._play(missing, on_episode)
        finally:
            self._write()
        return self._result()

    def estimate(self) -> Estimate | None:
        self._restore(repair=False)
        return self._estimate(self._missing())

    def _estimate(self, missing: Sequence[EpisodeRequest]) -> Estimate | None:
        rehearsal = self.contestant.rehearsal
        return None if rehearsal is None else rehearsal.estimate(self.handle, missing)

    def _missing(self) -> list[EpisodeRequest]:
        return [item for item in self.plan if _key(item) not in self.rows]

    def _restore(self, *, repair: bool) -> None:
        """Take over what an interrupted evaluation has played.

        Args:
            repair: Remove a last line that a kill left incomplete, and episodes that will be played again.
        """
        config = self.config
        path = config.episodes_path
        if config.output is None or path is None or not config.output.exists():
            return
        earlier = EvaluationResult.read(config.output)
        require_same(earlier.header, self.header, config.output)
        self._seconds_before = float(earlier.details.get("wall_seconds", 0.0))
        self._spent_before = earlier.details.get("spent")
        if not path.exists():
            return
        if repair:
            with EpisodeWriter(path):  # cuts the incomplete line
                pass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AgentGymWarning)  # of the incomplete line, when it is still there
            episodes = list(read_episodes(path))
        planned = {_key(item): item for item in self.plan}
        kept = []
        for episode in episodes:
            item = planned.get((episode.task_id, episode.seed or 0))
            if item is None:
                raise DataError(
                    f"{path} holds an episode of task {episode.task_id!r} with seed {episode.seed}, which is not "
                    f"in the plan of {config.output}; the two files do not belong together"
                )
            if episode.stop_reason is not StopReason.TOOL_ERROR and _key(item) not in self.rows:
                self.rows[_key(item)] = EpisodeRow.of(episode, item)
                kept.append(episode)
        if repair and len(kept) < len(episodes):
            _rewrite(path, kept)

    def _play(self, missing: Sequence[EpisodeRequest], on_episode: Callable[[EpisodeRow], None] | None) -> None:
        path = self.config.episodes_path
        writer = None if path is None else EpisodeWriter(path)

        def finished(index: int, episode: Episode) -> None:
            if writer is not None:
                writer.write(episode)
            item = missing[index]
            row = EpisodeRow.of(episode, item)
            self.rows[_key(item)] = row
            if time.perf_counter() - self._written > _WRITE_SECONDS:  # a kill then loses little of the account
                self._write()
            if on_episode is not None:
                on_episode(row)

        try:
            with self._runner(len(missing)) as runner:
                result = play_episodes(self.handle, runner, self.contestant.player, missing, on_episode=finished)
        finally:
            if writer is not None:
                writer.close()
        for index, error in result.errors.items():
            item = missing[index]
            row = EpisodeRow.without_episode(item, f"{ENVIRONMENT}: {error}")
            self.rows[_key(item)] = row
            if on_episode is not None:
                on_episode(row)

    def _runner(self, count: int) -> EnvRunner:
        slots = min(self.config.parallel, count, self.contestant.most_parallel or count)
        if self.config.workers:
            workers = min(self.config.workers, slots)
            return ProcessPoolRunner(self.handle.env_id, self.handle.options, slots, workers)
        return InProcessRunner((self.handle.env_id, self.handle.options), slots)

    def _result(self) -> EvaluationResult:
        config = self.config
        rows = [self.rows[_key(item)] for item in self.plan if _key(item) in self.rows]
        details: dict[str, Any] = {
            "package_version": __version__,
            "config": {"parallel": config.parallel, "workers": config.workers, "device": config.device},
            "wall_seconds": round(self._seconds_before + time.perf_counter() - self._begin, 3),
        }
        if self.contestant.ledger is not None:
            details["spent"] = add_spent(self._spent_before, self.contestant.ledger.spent())
        return EvaluationResult(self.header, rows, len(self.plan), details)

    def _write(self) -> None:
        self._written = time.perf_counter()
        if self.config.output is not None:
            self._result().write(self.config.output)


def _rewrite(path: Path, episodes: Sequence[Episode]) -> None:
    """Replace an episode file by one with these episodes, at once."""
    partial = path.with_name(f".tmp-{path.name}")
    partial.unlink(missing_ok=True)
    with EpisodeWriter(partial) as writer:
        for episode in episodes:
            writer.write(episode)
    os.replace(partial, path)


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they come back from JSON."""
    return {name: _value(value) for name, value in options.items()}


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(value)
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)

"""Playing a suite: one result file a part, each gone on with where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from agent_gym.play.driver import EnvHandle
from agent_gym.support.errors import AgentGymError, DataError
from benchmarks.evaluation.agents.estimate import Estimate
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.results import EpisodeRow, EvaluationResult
from benchmarks.evaluation.run import evaluate
from benchmarks.evaluation.suites.suite import Part, Suite


class PartStatus(StrEnum):
    """What became of a part."""

    PLAYED = "played"
    """All its episodes were played, errors included."""
    SKIPPED = "skipped"
    """Something it needs is not here."""


@dataclass(frozen=True)
class PartResult:
    """What became of a part.

    Attributes:
        part: The part.
        status: Whether it was played.
        reason: What is missing, for a part that was skipped.
        result: Its result, for a part that was played.
    """

    part: Part
    status: PartStatus
    reason: str = ""
    result: EvaluationResult | None = None


def run_suite(
    suite: Suite,
    agent: str,
    folder: Path,
    base: EvalConfig,
    *,
    on_part: Callable[[Part], None] | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    on_estimate: Callable[[Estimate], None] | None = None,
    on_episode: Callable[[EpisodeRow], None] | None = None,
) -> list[PartResult]:
    """Evaluate an agent on every part of a suite whose data are here.

    Results go to `folder`, one file a part. Parts that are there are gone on with, so an interrupted suite is
    finished by the same call.

    Args:
        suite: What to play.
        agent: Name of the agent.
        folder: Folder of this agent's results.
        base: Settings that all parts share: parallel, workers, device, agent options.
        on_part: Called before a part is played.
        on_plan: See `benchmarks.evaluation.run.evaluate`.
        on_estimate: See there.
        on_episode: See there.

    Raises:
        DataError: A task list is not the one that the suite was made with.
        ConfigError: A result file in the folder is of another evaluation.
    """
    results = []
    for part in suite.parts:
        missing = part.missing() or _unusable(part)
        if missing:
            results.append(PartResult(part, PartStatus.SKIPPED, missing))
            continue
        if on_part is not None:
            on_part(part)
        config = part_config(part, base, folder)
        result = evaluate(config, agent, on_plan=on_plan, on_estimate=on_estimate, on_episode=on_episode)
        results.append(PartResult(part, PartStatus.PLAYED, result=result))
    return results


def _unusable(part: Part) -> str:
    """Return why data that are here cannot be played (a split that is not among them), "" when they can."""
    if not part.needs:
        return ""
    try:
        task_list(part)
    except AgentGymError as error:
        return str(error)
    return ""


def part_config(part: Part, base: EvalConfig, folder: Path) -> EvalConfig:
    """Return the evaluation of a part, its task list checked.

    Raises:
        DataError: The task list is not the one that the suite was made with.
    """
    count, digest = task_list(part)
    wanted = part.episodes or part.tasks
    if (wanted and count != wanted) or (part.digest and digest != part.digest):
        raise DataError(
            f"part {part.name}: its task list has {count} tasks and digest {digest}, but the suite was made with "
            f"{wanted or 'any number of'} tasks and digest {part.digest or '(any)'}; results would not compare. "
            + (
                "Check that the data are whole and of the right version"
                if part.needs
                else "Use the version of agent-gym that made the suite"
            )
        )
    return replace(
        base,
        env_id=part.env,
        options=dict(part.options),
        split=part.split,
        episodes=count,
        seeds=part.seeds,
        task_ids=None,
        task_file=None,
        max_turns=part.max_turns,
        output=folder / f"{part.name}.json",
        resume=True,
    )


def task_list(part: Part) -> tuple[int, str]:
    """Return number and digest of the tasks that a part plays."""
    options = {**part.options, "split": part.split}
    handle = EnvHandle.make(part.env, options)
    try:
        tasks = handle.env.tasks
        ids = tasks.ids[: part.episodes or len(tasks.ids)]
        return len(ids), handle.env.tasks_digest(ids)
    finally:
        handle.env.close()

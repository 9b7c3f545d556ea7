"""Results of an evaluation: one row an episode, what they sum up to, and their JSON form.

A rate is never without its number of episodes, and an episode in which the environment or a tool failed is
neither a success nor a failure: it is counted apart, and coverage says which share of the plan was played.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_gym.core.info import StopReason
from agent_gym.play.episode import Episode
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.arithmetic import added
from agent_gym.support.errors import DataError
from agent_gym.support.files import write_whole
from agent_gym.support.intervals import Interval, IntervalMethod, mean_interval, rate_interval
from benchmarks.evaluation.reading import read_field, read_fields, read_rows
from benchmarks.evaluation.statistics import pass_at_k, pass_hat_k

SCHEMA_VERSION = 1
KIND = "agent-gym evaluation"
ENVIRONMENT = "environment"
"""Name of the error when the environment raised."""
TOOL = "tool"
"""Name of the error when a tool behind the environment failed."""
_SHOWN = 200  # characters of the last observation in an error


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """What one planned episode came to.

    Attributes:
        task_id: Task that was played.
        seed: Seed of the evaluation that it belongs to.
        episode_seed: Seed of its reset and of the agent's draws.
        task_type: Category of the task, "" for an episode that never began.
        success: Whether the task was solved.
        score: Task score in [0, 1].
        reward: Episode return.
        turns: Turns taken.
        invalid_format: Turns whose reply did not follow the grammar.
        invalid_action: Turns whose action was not accepted.
        stop_reason: Why the episode ended.
        seconds: Wall-clock seconds of its turns, shared among the episodes that were answered together.
        slowest_turn: The longest of them.
        prompt_tokens: Tokens read, where the agent counts them in every turn.
        reply_tokens: Tokens sampled, likewise.
        error: What failed beside the agent, as `name: explanation`; "" when nothing did. The name is `environment`,
            `tool`, `oracle`, or one of `benchmarks.evaluation.agents.endpoint.EndpointFault`.
    """

    task_id: str
    seed: int
    episode_seed: int
    task_type: str = ""
    success: bool = False
    score: float = 0.0
    reward: float = 0.0
    turns: int = 0
    invalid_format: int = 0
    invalid_action: int = 0
    stop_reason: str = ""
    seconds: float = 0.0
    slowest_turn: float = 0.0
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    error: str = ""

    @property
    def error_name(self) -> str:
        """The word before the colon of `error`, "" without one."""
        return self.error.partition(":")[0]

    @classmethod
    def of(cls, episode: Episode, request: EpisodeRequest) -> EpisodeRow:
        """Return the row of a played episode; one that a broken tool ended is an error."""
        turns = episode.turns
        error = ""
        if episode.stop_reason is StopReason.TOOL_ERROR:
            error = episode.error or f"{TOOL}: a tool failed: {episode.final_observation[:_SHOWN]}"
        return cls(
            task_id=episode.task_id,
            seed=_planned(request.plan_seed),
            episode_seed=_planned(request.seed),
            task_type=episode.task_type,
            success=episode.success,
            score=episode.score,
            reward=episode.reward,
            turns=len(turns),
            invalid_format=sum(not turn.valid_format for turn in turns),
            invalid_action=sum(not turn.valid_action for turn in turns),
            stop_reason=episode.stop_reason.value,
            seconds=round(sum(turn.seconds for turn in turns), 6),
            slowest_turn=round(max((turn.seconds for turn in turns), default=0.0), 6),
            prompt_tokens=_total([_tokens(turn.prompt_ids, turn.prompt_tokens) for turn in turns]),
            reply_tokens=_total([_tokens(turn.reply_ids, turn.reply_tokens) for turn in turns]),
            error=error,
        )

    @classmethod
    def without_episode(cls, request: EpisodeRequest, error: str) -> EpisodeRow:
        """Return the row of an episode that came to nothing."""
        return cls(request.task_id or "", _planned(request.plan_seed), _planned(request.seed), error=error)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the rows of an evaluation sum up to; means are over the episodes without an error.

    Attributes:
        n_planned: Episodes of the plan.
        n_ok: Episodes played to an end.
        n_error: Episodes in which the environment, a tool or the agent's service failed.
        errors: They by the name of what failed.
        n_missing: Episodes not played yet.
        coverage: n_ok / n_planned.
        success: Success rate with its 95 % interval over tasks.
        by_type: The same for each task type.
        score: Task score with its interval.
        reward: Episode return with its interval.
        turns: Mean turns.
        invalid_format: Share of turns whose reply did not follow the grammar.
        invalid_action: Share of turns whose action was not accepted.
        stop_reasons: Episodes by stop reason.
        seconds: Mean seconds per episode.
        turn_seconds: Mean seconds per turn: the latency of a reply where each is made by itself.
        slowest_turn_p95: 95th percentile over episodes of the slowest turn, in seconds.
        prompt_tokens: Mean tokens read per episode, None where unknown.
        reply_tokens: Mean tokens sampled per episode, None where unknown.
        pass_at: k -> chance that at least one of k attempts at a task succeeds, unbiased, over valid attempts.
        pass_hat: k -> chance that all of k attempts succeed.
        pass_tasks: k -> tasks that both rest on: those with at least k valid attempts.
    """

    n_planned: int
    n_ok: int
    n_error: int
    errors: dict[str, int]
    n_missing: int
    coverage: float
    success: Interval
    by_type: dict[str, Interval]
    score: Interval
    reward: Interval
    turns: float
    invalid_format: float
    invalid_action: float
    stop_reasons: dict[str, int]
    seconds: float
    turn_seconds: float
    slowest_turn_p95: float
    prompt_tokens: float | None
    reply_tokens: float | None
    pass_at: dict[int, float]
    pass_hat: dict[int, float]
    pass_tasks: dict[int, int]


def summarise(rows: Sequence[EpisodeRow], n_planned: int) -> Summary:
    """Sum up rows of a plan of `n_planned` episodes."""
    played = [row for row in rows if not row.error]
    tasks = _by_task(played)
    types: dict[str, list[EpisodeRow]] = defaultdict(list)
    for row in played:
        types[row.task_type].append(row)
    turns = sum(row.turns for row in played)
    won = [sum(row.success for row in group) for group in tasks.values()]
    tried = [len(group) for group in tasks.values()]
    at, hat = {}, {}
    for k in range(1, max(tried, default=0) + 1):
        one, every = pass_at_k(won, tried, k), pass_hat_k(won, tried, k)
        assert one is not None and every is not None
        at[k], hat[k] = one, every
    return Summary(
        n_planned=n_planned,
        n_ok=len(played),
        n_error=len(rows) - len(played),
        errors=dict(sorted(Counter(row.error_name for row in rows if row.error).items())),
        n_missing=n_planned - len(rows),
        coverage=len(played) / n_planned if n_planned else 0.0,
        success=_success(played),
        by_type={kind: _success(types[kind]) for kind in sorted(types)},
        score=rate_interval([_mean([row.score for row in group]) for group in tasks.values()]),
        reward=mean_interval([_mean([row.reward for row in group]) for group in tasks.values()]),
        turns=_mean([row.turns for row in played]),
        invalid_format=sum(row.invalid_format for row in played) / turns if turns else 0.0,
        invalid_action=sum(row.invalid_action for row in played) / turns if turns else 0.0,
        stop_reasons=dict(sorted(Counter(row.stop_reason for row in played).items())),
        seconds=_mean([row.seconds for row in played]),
        turn_seconds=sum(row.seconds for row in played) / turns if turns else 0.0,
        slowest_turn_p95=_percentile([row.slowest_turn for row in played], 0.95),
        prompt_tokens=_known_mean([row.prompt_tokens for row in played]),
        reply_tokens=_known_mean([row.reply_tokens for row in played]),
        pass_at=at,
        pass_hat=hat,
        pass_tasks={k: sum(count >= k for count in tried) for k in at},
    )


@dataclass(frozen=True)
class EvaluationResult:
    """An evaluation: what was asked, and what came of it.

    Attributes:
        header: What must agree for two results to be of one evaluation: environment, split, digest and size of
            the task list, seeds, agent.
        rows: Episodes in the order of the plan; those not played yet are absent.
        n_planned: Episodes of the plan.
        details: What may differ between parts of one evaluation: package version, workers, wall-clock seconds, and
            what asking a service took (`benchmarks.evaluation.agents.ledger.Ledger.spent`, over all parts).
    """

    header: Mapping[str, Any]
    rows: Sequence[EpisodeRow]
    n_planned: int
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> Summary:
        """What the rows sum up to."""
        return summarise(self.rows, self.n_planned)

    @property
    def complete(self) -> bool:
        """Whether every planned episode was played or failed."""
        return len(self.rows) == self.n_planned

    def write(self, path: Path) -> None:
        """Write the result as JSON; a reader finds the old file or the new one, never half of one."""
        values = {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "complete": self.complete,
            **self.header,
            **self.details,
            "summary": asdict(self.summary),
            "episodes": [asdict(row) for row in self.rows],
        }
        values["header_fields"] = list(self.header)
        values["detail_fields"] = list(self.details)
        write_whole(path, json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> EvaluationResult:
        """Read a result file; an episode that it holds twice counts once.

        Raises:
            DataError: There is none, or it is not a result file of this schema; the message names the field.
        """
        path = Path(path)
        if not path.is_file():
            raise DataError(f"no result file at {path}; `agent-gym eval ... --output {path}` writes one")
        try:
            values = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is not JSON ({error})") from error
        if not isinstance(values, dict) or values.get("kind") != KIND:
            raise DataError(f"{path} is not a result of `agent-gym eval`: its 'kind' is not {KIND!r}")
        version = values.get("schema_version")
        if version != SCHEMA_VERSION:
            raise DataError(f"{path} has result schema {version!r}; this version reads schema {SCHEMA_VERSION}")
        summary = read_field(values, "summary", (dict,), str(path))
        rows: dict[tuple[str, int, int], EpisodeRow] = {}
        for given in read_rows(values, EpisodeRow, path):
            row = EpisodeRow(**given)
            rows.setdefault((row.task_id, row.seed, row.episode_seed), row)
        return cls(
            read_fields(values, "header_fields", path),
            list(rows.values()),
            read_field(summary, "n_planned", (int,), f"{path}, summary"),
            read_fields(values, "detail_fields", path),
        )


def _by_task(rows: Iterable[EpisodeRow]) -> dict[str, list[EpisodeRow]]:
    tasks: dict[str, list[EpisodeRow]] = defaultdict(list)
    for row in rows:
        tasks[row.task_id].append(row)
    return tasks


def _success(rows: Sequence[EpisodeRow]) -> Interval:
    rates = [_mean([float(row.success) for row in group]) for group in _by_task(rows).values()]
    found = rate_interval(rates)
    if found.method is IntervalMethod.NONE:
        return found
    # Every valid attempt counts once in the rate; the interval is about tasks.
    value = _mean([float(row.success) for row in rows])
    return Interval(value, min(found.low, value), max(found.high, value), found.n, found.method)


def _mean(values: Sequence[float]) -> float:
    return added(values) / len(values) if values else 0.0


def _known_mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def _percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed; 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _tokens(ids: Sequence[int] | None, count: int | None) -> int | None:
    return count if ids is None else len(ids)


def _planned(seed: int | None) -> int:
    """Return a seed of a request, which the requests of an evaluation's plan always have."""
    assert seed is not None
    return seed


def _total(counts: Sequence[int | None]) -> int | None:
    """Return the sum, None where one is unknown or there are none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None

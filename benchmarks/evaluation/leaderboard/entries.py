"""One result as a line of a leaderboard.

An entry holds what a table shows and, for each task, what came of it, keyed by a short hash of the task id: enough
to compare two agents task by task, without the tasks' texts or the machine's paths.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_gym.support.arithmetic import added
from agent_gym.support.errors import DataError
from agent_gym.support.intervals import Interval
from agent_gym.support.seeding import stable_hash
from benchmarks.evaluation.reading import json_object
from benchmarks.evaluation.results import KIND, EvaluationResult, Summary

KEY_BYTES = 5
DIGITS = 6
"""Decimals kept of a task's success and score."""
_SERVICE = "a service"
"""Stands for the address of a service where the digest of the tasks says what it serves."""
_OWN_SETTINGS = ("split", "max_turns", "tasks")  # options that have a field of their own in a contest


@dataclass(frozen=True, slots=True)
class Contest:
    """What two results must share to stand in one table.

    Attributes:
        env_id: Environment.
        options: Its other options as JSON text, paths shortened to their last part; without the addresses of
            services whose data the digest covers.
        split: Split of the tasks.
        tasks: Tasks in the list.
        digest: Hash of the list: ids, records and the data they are played in (`TextEnv.tasks_digest`).
        max_turns: Turn limit; 0 where each task has its own.
    """

    env_id: str
    options: str
    split: str
    tasks: int
    digest: str
    max_turns: int

    @property
    def name(self) -> str:
        """Environment without its namespace, with the options that are not the usual ones."""
        given = ", ".join(f"{name}={_shown(value)}" for name, value in json.loads(self.options).items())
        short = self.env_id.rpartition("/")[2]
        return f"{short} ({given})" if given else short


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one task: means over its valid attempts.

    Attributes:
        success: Share of attempts that solved it.
        score: Task score in [0, 1].
    """

    success: float
    score: float


@dataclass(frozen=True)
class Figures:
    """The numbers that a table shows.

    Attributes:
        success: Success rate with its interval.
        score: Task score with its interval.
        by_type: Success for each task type.
        turns: Mean turns.
        invalid_format: Share of turns whose reply did not follow the grammar.
        invalid_action: Share of turns whose action was not accepted.
        reply_tokens: Mean tokens sampled per episode, None where unknown.
        n_planned: Episodes of the plan.
        n_ok: Episodes played to an end.
        n_error: Episodes in which something beside the agent failed.
        pass_at: k -> pass@k, for evaluations of several seeds.
        pass_hat: k -> pass^k.
        pass_tasks: k -> tasks that both rest on; empty in files that do not say.
    """

    success: Interval
    score: Interval
    by_type: Mapping[str, Interval]
    turns: float
    invalid_format: float
    invalid_action: float
    reply_tokens: float | None
    n_planned: int
    n_ok: int
    n_error: int
    pass_at: Mapping[int, float] = field(default_factory=dict)
    pass_hat: Mapping[int, float] = field(default_factory=dict)
    pass_tasks: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, summary: Summary) -> Figures:
        """Take the numbers of an evaluation's summary."""
        several = len(summary.pass_at) > 1
        return cls(
            success=summary.success,
            score=summary.score,
            by_type=summary.by_type,
            turns=summary.turns,
            invalid_format=summary.invalid_format,
            invalid_action=summary.invalid_action,
            reply_tokens=summary.reply_tokens,
            n_planned=summary.n_planned,
            n_ok=summary.n_ok,
            n_error=summary.n_error,
            pass_at=dict(summary.pass_at) if several else {},
            pass_hat=dict(summary.pass_hat) if several else {},
            pass_tasks=dict(summary.pass_tasks) if several else {},
        )

    @property
    def whole(self) -> bool:
        """Whether every planned episode was played."""
        return self.n_ok == self.n_planned


@dataclass(frozen=True)
class Entry:
    """One result.

    Attributes:
        agent: How the agent is called.
        identity: What tells it apart from others of that name, plain values only.
        contest: What it played.
        seeds: Seeds of the evaluation.
        figures: The numbers.
        outcomes: Key of a task -> what came of it; tasks without a valid attempt are absent.
        source: File it was read from.
    """

    agent: str
    identity: Mapping[str, Any]
    contest: Contest
    seeds: tuple[int, ...]
    figures: Figures
    outcomes: Mapping[str, Outcome]
    source: str = field(default="", compare=False)

    @classmethod
    def of(cls, result: EvaluationResult, source: str = "") -> Entry:
        """Make the entry of a result.

        Raises:
            DataError: The result lacks what says which tasks were played.
        """
        header = result.header
        try:
            known = bool(header["tasks"].get("world"))
            options = {
                name: _SERVICE if known and _is_address(value) else _without_place(value)
                for name, value in sorted(header["env_kwargs"].items())
                if name not in _OWN_SETTINGS
            }
            contest = Contest(
                env_id=str(header["env_id"]),
                options=json.dumps(options, sort_keys=True, ensure_ascii=False),
                split=str(header["split"]),
                tasks=int(header["tasks"]["count"]),
                digest=str(header["tasks"]["digest"]),
                max_turns=int(header["max_turns"] or 0),
            )
            agent = dict(header["agent"])
            seeds = tuple(int(seed) for seed in header["seeds"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{source or 'the result'} does not say what was played ({error!r})") from error
        return cls(
            agent=_agent_name(str(agent.pop("spec"))),
            identity=_identity(agent),
            contest=contest,
            seeds=seeds,
            figures=Figures.of(result.summary),
            outcomes=_outcomes(result),
            source=source,
        )


def read_entries(paths: Sequence[str | Path]) -> list[Entry]:
    """Read the entries of result files, of leaderboard files and of folders that hold such files.

    Raises:
        DataError: A file is neither, or nothing was found.
    """
    from benchmarks.evaluation.leaderboard.compact import BOARD_KIND, read_board_file

    found: list[Entry] = []
    for path in map(Path, paths):
        if path.is_dir():
            files = [f for f in sorted(path.rglob("*.json")) if json_object(f).get("kind") in (KIND, BOARD_KIND)]
            if not files:
                raise DataError(f"no result of `agent-gym eval` in the folder {path}; expected *.json files")
        else:
            files = [path]
        for file in files:
            if json_object(file).get("kind") == BOARD_KIND:
                found += read_board_file(file)
            else:  # reading says what is wrong with a file of neither kind
                found.append(Entry.of(EvaluationResult.read(file), str(file)))
    if not found:
        raise DataError("no results to compare; give files that `agent-gym eval --output` wrote")
    return _distinct(found)


def task_key(task_id: str) -> str:
    """Return the short hash that stands for a task id."""
    return stable_hash(task_id, size=KEY_BYTES)


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Drop entries that are equal to an earlier one (the same result given twice)."""
    kept: list[Entry] = []
    for entry in entries:
        alike = [e for e in kept if (e.agent, e.contest, e.seeds) == (entry.agent, entry.contest, entry.seeds)]
        if not any(e.identity == entry.identity and e.outcomes == entry.outcomes for e in alike):
            kept.append(entry)
    return kept


def _outcomes(result: EvaluationResult) -> dict[str, Outcome]:
    attempts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in result.rows:
        if not row.error:
            attempts[row.task_id].append((float(row.success), row.score))
    found = {
        task_key(task_id): Outcome(_mean([s for s, _ in pairs]), _mean([s for _, s in pairs]))
        for task_id, pairs in attempts.items()
    }
    if len(found) != len(attempts):
        raise DataError("two task ids of one list share a hash; this list cannot be compared")
    return found


def _mean(values: Sequence[float]) -> float:
    return round(added(values) / len(values), DIGITS)


def _agent_name(spec: str) -> str:
    """Return an agent's name without the places of this machine: no folders, no addresses."""
    kind, colon, argument = spec.partition(":")
    if kind == "openai":
        return f"{kind}{colon}{argument.rpartition('@')[0] or argument}"
    return f"{kind}{colon}{_last_part(argument)}"


def _identity(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of an identity, without addresses and folders."""
    plain = {name: value for name, value in agent.items() if isinstance(value, (str, int, float))}
    return {name: _without_place(value) for name, value in plain.items() if "://" not in str(value)}


def _without_place(value: Any) -> Any:
    """Return an option with paths cut to their last part, so that results of two machines meet."""
    if isinstance(value, Mapping):
        return {name: _without_place(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_place(item) for item in value]
    return _last_part(value) if isinstance(value, str) and "://" not in value and "\n" not in value else value


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _last_part(text: str) -> str:
    return text.replace("\\", "/").rstrip("/").rpartition("/")[2] or text


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."

"""Turns and episodes as records, and their JSON-lines form.

One episode is one line: a JSON object with `schema_version` first. Optional fields that are None are left
out. Text is kept exactly, numbers must be finite.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, Self

from agent_gym._version import __version__
from agent_gym.core.info import FinishReason, StopReason
from agent_gym.core.replies import ParsedReply
from agent_gym.play.host import Observed
from agent_gym.play.reply import Reply
from agent_gym.support.arithmetic import added
from agent_gym.support.errors import AgentGymWarning, DataError
from agent_gym.support.files import unwritable

SCHEMA_VERSION = 1
_EPISODES_EXPECTED = (
    "expected a file of episodes, such as `agent-gym eval --output` writes beside its result (.episodes.jsonl)"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the agent and what came of it.

    Attributes:
        observation: What the environment showed before the reply, as `reset` or `step` returned it.
        reply: The agent's raw text.
        thought: The thought in the reply.
        action: The action that the environment was given, or None when the reply held none.
        valid_format: Whether the reply followed the grammar.
        reason: What was wrong with the format, "" when nothing was.
        valid_action: Whether the environment accepted the action.
        reward: The environment's reward for this turn.
        anchor: Anchor of the state in which the agent acted.
        finish_reason: Why the reply ended.
        seconds: Wall-clock seconds of the turn, 0 when not measured.
        prompt_ids: Token ids of the prompt.
        reply_ids: Token ids of the reply as sampled.
        logprobs: Log-probability of each reply token when it was sampled, in nats.
        entropies: Entropy of the distribution that each reply token was sampled from, in nats.
        prompt_tokens: Tokens of the prompt, where their ids are not known.
        reply_tokens: Tokens of the reply, where their ids are not known.
    """

    observation: str
    reply: str
    action: str | None
    reward: float
    thought: str = ""
    valid_format: bool = True
    reason: str = ""
    valid_action: bool = True
    anchor: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    seconds: float = 0.0
    prompt_ids: tuple[int, ...] | None = None
    reply_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    entropies: tuple[float, ...] | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One played episode.

    Attributes:
        env_id: Registered id of the environment.
        env_kwargs: Its arguments; JSON values only (paths become text, tuples lists).
        seed: Seed of the reset, None when it was not seeded.
        task_id: Task that was played.
        task_type: Category of the task.
        goal: The instruction.
        turns: The turns in order.
        final_observation: What the environment showed after the last turn.
        success: Whether the task was solved.
        score: Task score in [0, 1] at the end.
        stop_reason: Why the episode ended.
        reward: Sum of the turns' rewards.
        split: Split of the task.
        group_id: Group of episodes that share a task, when sampled in groups.
        policy_version: Number of the policy's update that sampled it.
        package_version: Version of this package that recorded it.
        started_at: Start as ISO 8601 text, when recorded.
        error: What failed beside the agent and ended the episode, as `name: explanation`.
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    seed: int | None
    task_id: str
    task_type: str
    goal: str
    turns: tuple[Turn, ...]
    final_observation: str
    success: bool
    score: float
    stop_reason: StopReason
    reward: float
    split: str = ""
    group_id: str | None = None
    policy_version: int | None = None
    package_version: str = field(default=__version__)
    started_at: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "env_kwargs", _plain(self.env_kwargs, "env_kwargs"))

    def to_json(self) -> str:
        """Return the episode as one line of JSON, without the line break.

        Raises:
            DataError: A number is not finite.
        """
        row = {"schema_version": SCHEMA_VERSION, **_present(self)}
        row["turns"] = [_present(turn) for turn in self.turns]
        try:
            line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError as error:
            raise DataError(
                f"episode of task {self.task_id!r}: {_not_finite(self)} is not a finite number; episodes "
                "hold finite numbers only"
            ) from error
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8 form, its escape has
            line = json.dumps(row, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return line

    @classmethod
    def from_json(cls, line: str | bytes) -> Episode:
        """Return the episode of one line.

        Raises:
            DataError: The line is not an episode, or of a newer schema; the message says which.
        """
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"not a JSON object ({error})") from error
        if not isinstance(row, dict) or "schema_version" not in row:
            raise DataError("not an episode: expected a JSON object with 'schema_version'")
        version = row.pop("schema_version")
        if version != SCHEMA_VERSION:
            raise DataError(
                f"episode schema {version!r}, but this version of agent-gym ({__version__}) reads schema "
                f"{SCHEMA_VERSION}; install the version that wrote the file"
                + (f" ({row['package_version']})" if row.get("package_version") else "")
            )
        try:
            row["turns"] = tuple(_turn(turn) for turn in row["turns"])
            row["stop_reason"] = StopReason(row["stop_reason"])
            return cls(**row)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not an episode of schema {SCHEMA_VERSION} ({error})") from error


class EpisodeRecorder:
    """Collects the turns of one running episode.

    Args:
        env_id: Registered id of the environment.
        env_kwargs: Its arguments.
        seed: Seed of the reset.
        first: What the reset returned.
        split: Split of the task.
        group_id: Group of episodes that share a task.
        policy_version: Number of the policy's update that samples it.
        started_at: Start as ISO 8601 text.
    """

    def __init__(
        self,
        env_id: str,
        env_kwargs: Mapping[str, Any],
        seed: int | None,
        first: Observed,
        *,
        split: str = "",
        group_id: str | None = None,
        policy_version: int | None = None,
        started_at: str | None = None,
    ) -> None:
        self._env_id, self._env_kwargs, self._seed, self._split = env_id, env_kwargs, seed, split
        self._group_id, self._policy_version, self._started_at = group_id, policy_version, started_at
        self.turns: list[Turn] = []
        self.current = first

    @property
    def over(self) -> bool:
        """Whether the environment has ended the episode."""
        return self.current.over

    def add(self, reply: Reply, parsed: ParsedReply, observed: Observed, *, seconds: float = 0.0) -> Turn:
        """Record one turn.

        Args:
            reply: What the agent answered.
            parsed: What the parser made of it; its action must be the one that the environment was given.
            observed: What the environment returned.
            seconds: Wall-clock seconds of the turn.
        """
        sample = reply.sample
        turn = Turn(
            observation=self.current.observation,
            reply=reply.text,
            action=None if parsed.action is None else str(parsed.action),
            reward=float(observed.reward),
            thought=parsed.thought,
            valid_format=parsed.valid_format,
            reason=parsed.reason,
            valid_action=bool(observed.info["valid_action"]),
            anchor=self.current.info["anchor"],
            finish_reason=reply.finish_reason,
            seconds=seconds,
            prompt_ids=reply.prompt_ids,
            reply_ids=None if sample is None else sample.ids,
            logprobs=None if sample is None else sample.logprobs,
            entropies=None if sample is None else sample.entropies,
            prompt_tokens=reply.prompt_tokens,
            reply_tokens=reply.reply_tokens,
        )
        self.turns.append(turn)
        self.current = observed
        return turn

    def finish(self, stop_reason: StopReason | None = None, error: str | None = None) -> Episode:
        """Return the episode.

        Args:
            stop_reason: Why the rollout stopped it, when the environment did not.
            error: What failed beside the agent, when something did.
        """
        info = self.current.info
        return Episode(
            env_id=self._env_id,
            env_kwargs=self._env_kwargs,
            seed=self._seed,
            task_id=info["task_id"],
            task_type=info["task_type"],
            goal=info["goal"],
            turns=tuple(self.turns),
            final_observation=self.current.observation,
            success=bool(info["success"]),
            score=float(info["score"]),
            stop_reason=StopReason(info["stop_reason"]) or stop_reason or StopReason.RUNNING,
            reward=added(turn.reward for turn in self.turns),
            split=self._split,
            group_id=self._group_id,
            policy_version=self._policy_version,
            started_at=self._started_at,
            error=error,
        )


class EpisodeWriter:
    """Appends episodes to a file, one whole line each, flushed at once.

    A last line that a killed run left incomplete is removed when the file is opened again.

    Args:
        path: File to append to; folders above it are made.

    Raises:
        DataError: The file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _drop_partial_line(self.path)
            self._stream = self.path.open("ab")
        except OSError as error:
            raise unwritable(self.path, error) from error

    def write(self, episode: Episode) -> None:
        """Append one episode.

        Raises:
            DataError: A number in the episode is not finite.
        """
        self._stream.write(episode.to_json().encode("utf-8") + b"\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_episodes(path: str | Path) -> Iterator[Episode]:
    """Yield the episodes of a file; an incomplete last line is skipped with an `AgentGymWarning`.

    Raises:
        DataError: There is no such file, or a line is not an episode; the message names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no episode file at {path}; expected JSON lines as `agent-gym eval --output` writes them")
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                try:
                    json.loads(line)
                except ValueError:
                    warnings.warn(
                        f"{path}, line {number}: the last line is incomplete (the run that wrote it was "
                        "stopped) and is skipped",
                        AgentGymWarning,
                        stacklevel=2,
                    )
                    return
            if not line.strip():
                continue
            try:
                yield Episode.from_json(line)
            except DataError as error:
                remedy = "remove the line to read the others" if number > 1 else _EPISODES_EXPECTED
                raise DataError(f"{path}, line {number}: {error}; {remedy}") from error


def _drop_partial_line(path: Path) -> None:
    """Cut a file after its last line break, or complete a last line that is whole but for its break."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("r+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        start, tail = end, b""
        while start > 0 and b"\n" not in tail:
            size = min(65_536, start)
            start -= size
            stream.seek(start)
            tail = stream.read(size) + tail
        whole, broken, last = tail.rpartition(b"\n")
        if not last:
            return
        try:
            json.loads(last)
        except ValueError:
            stream.truncate(start + len(whole) + len(broken))
        else:
            stream.seek(end)
            stream.write(b"\n")


def _present(record: Episode | Turn) -> dict[str, Any]:
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    # An action and a seed of None are statements; other fields are absent when None.
    return {k: v for k, v in values.items() if v is not None or k in ("action", "seed")}


def _turn(row: Mapping[str, Any]) -> Turn:
    values = dict(row)
    for name in ("prompt_ids", "reply_ids", "logprobs", "entropies"):
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    if "finish_reason" in values:
        values["finish_reason"] = FinishReason(values["finish_reason"])
    return Turn(**values)


def _plain(value: Any, where: str) -> Any:
    """Return the JSON form of an argument, so that it compares equal after it was read back."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise DataError(
        f"{where} is a {type(value).__name__}, which an episode file cannot hold; give numbers, text, lists "
        "or paths (a task set can be saved with save_tasks and named by its path)"
    )


def _not_finite(episode: Episode) -> str:
    """Return the name of the first number that JSON cannot hold."""
    for name in ("reward", "score"):
        if not math.isfinite(getattr(episode, name)):
            return f"its {name}"
    for index, turn in enumerate(episode.turns):
        for name in ("reward", "seconds", "logprobs", "entropies"):
            value = getattr(turn, name)
            numbers = value if isinstance(value, tuple) else (() if value is None else (value,))
            if not all(math.isfinite(number) for number in numbers):
                return f"{name} of turn {index}"
    return "a value of env_kwargs"

"""A board as a small file: its numbers, and for each task whether it was solved.

A task appears as a hash of its id only, so the file holds no text of any data set. A file can be given to
`agent-gym leaderboard` beside new results, which are then compared with its agents task by task.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_gym.support.errors import DataError
from agent_gym.support.files import write_whole
from agent_gym.support.intervals import Interval, IntervalMethod
from benchmarks.evaluation.leaderboard.board import Board
from benchmarks.evaluation.leaderboard.entries import DIGITS, KEY_BYTES, Contest, Entry, Figures, Outcome

BOARD_KIND = "agent-gym leaderboard"
BOARD_SCHEMA = 1


def write_board_file(board: Board, path: str | Path) -> Path:
    """Write a board; one line a table and a row, so that changes read well. Returns the path."""
    lines = [f'{{"kind":{_json(BOARD_KIND)},"schema_version":{BOARD_SCHEMA},"sections":[']
    for number, section in enumerate(board.sections):
        contest = section.contest
        keys = list(dict.fromkeys(key for row in section.rows for key in row.entry.outcomes))
        head = {
            "env_id": contest.env_id,
            "options": json.loads(contest.options),
            "split": contest.split,
            "tasks": contest.tasks,
            "digest": contest.digest,
            "max_turns": contest.max_turns,
            "keys": base64.b64encode(bytes.fromhex("".join(keys))).decode("ascii"),
        }
        rows = ",\n  ".join(_json(_entry_values(row.entry, keys)) for row in section.rows)
        comma = "," if number + 1 < len(board.sections) else ""
        lines.append(f' {_json(head)[:-1]},"entries":[\n  {rows}]}}{comma}')
    return write_whole(path, "\n".join([*lines, "]}"]) + "\n")


def read_board_file(path: str | Path) -> list[Entry]:
    """Read the entries of a board file.

    Raises:
        DataError: There is none, or it is not a board file of this schema.
    """
    path = Path(path)
    try:
        values = json.loads(path.read_text("utf-8"))
        if values.get("kind") != BOARD_KIND or values.get("schema_version") != BOARD_SCHEMA:
            raise DataError(
                f"{path} is not a leaderboard of schema {BOARD_SCHEMA}: kind {values.get('kind')!r}, schema "
                f"{values.get('schema_version')!r}"
            )
        return [entry for section in values["sections"] for entry in _section_entries(section, path)]
    except OSError as error:
        raise DataError(
            f"no leaderboard at {path}; `agent-gym leaderboard ... --json {path}` writes one"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a whole leaderboard file ({error!r})") from error


def _section_entries(section: Mapping[str, Any], path: Path) -> Iterable[Entry]:
    contest = Contest(
        env_id=section["env_id"],
        options=json.dumps(section["options"], sort_keys=True, ensure_ascii=False),
        split=section["split"],
        tasks=section["tasks"],
        digest=section["digest"],
        max_turns=section["max_turns"],
    )
    text, width = base64.b64decode(section["keys"]).hex(), 2 * KEY_BYTES
    keys = [text[start : start + width] for start in range(0, len(text), width)]
    for values in section["entries"]:
        success = _unpacked(values["successes"])
        scores = success if values["scores"] is None else _unpacked(values["scores"])
        yield Entry(
            agent=values["agent"],
            identity=values["identity"],
            contest=contest,
            seeds=tuple(values["seeds"]),
            figures=_figures(values["figures"]),
            outcomes={
                key: Outcome(won, score)
                for key, won, score in zip(keys, success, scores, strict=True)
                if won is not None and score is not None
            },
            source=str(path),
        )


def _entry_values(entry: Entry, keys: Sequence[str]) -> dict[str, Any]:
    outcomes = [entry.outcomes.get(key) for key in keys]
    successes = [None if outcome is None else outcome.success for outcome in outcomes]
    scores = [None if outcome is None else outcome.score for outcome in outcomes]
    figures = entry.figures
    return {
        "agent": entry.agent,
        "identity": dict(entry.identity),
        "seeds": list(entry.seeds),
        "figures": {
            "success": _interval_values(figures.success),
            "score": _interval_values(figures.score),
            "by_type": {kind: _interval_values(found) for kind, found in figures.by_type.items()},
            "turns": round(figures.turns, DIGITS),
            "invalid_format": round(figures.invalid_format, DIGITS),
            "invalid_action": round(figures.invalid_action, DIGITS),
            "reply_tokens": figures.reply_tokens,
            "episodes": [figures.n_planned, figures.n_ok, figures.n_error],
            "pass_at": {str(k): round(value, DIGITS) for k, value in figures.pass_at.items()},
            "pass_hat": {str(k): round(value, DIGITS) for k, value in figures.pass_hat.items()},
            "pass_tasks": {str(k): value for k, value in figures.pass_tasks.items()},
        },
        "successes": _packed(successes),
        "scores": None if scores == successes else _packed(scores),
    }


def _figures(values: Mapping[str, Any]) -> Figures:
    planned, played, errors = values["episodes"]
    return Figures(
        success=_interval(values["success"]),
        score=_interval(values["score"]),
        by_type={kind: _interval(found) for kind, found in values["by_type"].items()},
        turns=values["turns"],
        invalid_format=values["invalid_format"],
        invalid_action=values["invalid_action"],
        reply_tokens=values["reply_tokens"],
        n_planned=planned,
        n_ok=played,
        n_error=errors,
        pass_at={int(k): value for k, value in values["pass_at"].items()},
        pass_hat={int(k): value for k, value in values["pass_hat"].items()},
        pass_tasks={int(k): value for k, value in values.get("pass_tasks", {}).items()},
    )


def _packed(values: Sequence[float | None]) -> str | list[float | None]:
    """Return zeros and ones as text (`-` for no valid attempt), other numbers as they are."""
    signs = {None: "-", 0.0: "0", 1.0: "1"}
    if all(value in signs for value in values):
        return "".join(signs[value] for value in values)
    return list(values)


def _unpacked(values: str | list[float | None]) -> list[float | None]:
    if isinstance(values, str):
        return [{"-": None, "0": 0.0, "1": 1.0}[sign] for sign in values]
    return values


def _interval_values(found: Interval) -> list[Any]:
    ends = [round(value, DIGITS) for value in (found.value, found.low, found.high)]
    return [*ends, found.n, found.method.value]


def _interval(values: Sequence[Any]) -> Interval:
    value, low, high, n, method = values
    return Interval(value, low, high, n, IntervalMethod(method))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

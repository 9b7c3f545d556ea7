"""Result files that are not what they should be: the error names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_gym.support.errors import DataError
from benchmarks.evaluation.leaderboard.entries import read_entries
from benchmarks.evaluation.results import EvaluationResult
from tests.benchmarks.evaluation.boards import Played


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("episodes",), "all of them", 'episodes must be a list, got "all of them"'),
        (("episodes", 1), 3, "episode 2: expected an object, got 3"),
        (("episodes", 1, "success"), 1, "episode 2: success must be true or false, got 1"),
        (("episodes", 0, "score"), float("nan"), "episode 1: score must be a finite number, got NaN"),
        (("episodes", 0, "reply_tokens"), "9", 'reply_tokens must be a whole number or null, got "9"'),
        (("episodes", 0, "task_id"), None, "task_id must be a text, got null"),
        (("summary",), [], r"summary must be an object, got \[\]"),
        (("summary", "n_planned"), True, "summary: n_planned must be a whole number, got true"),
        (("header_fields",), {}, "header_fields must be a list"),
        (("header_fields", 0), 7, "header_fields must hold names, got 7"),
        (("header_fields", 0), "nothing", "nothing is missing, which header_fields names"),
        (("seeds",), "0", 'seeds must be a list, got "0"'),
        (("seeds", 0), "0", "seeds must hold whole numbers, got '0'"),
        (("agent",), "oracle", 'agent must be an object, got "oracle"'),
        (("agent", "spec"), None, "agent: spec must be a text, got null"),
        (("tasks", "count"), "8", 'tasks: count must be a whole number, got "8"'),
        (("wall_seconds",), "long", 'wall_seconds must be a finite number, got "long"'),
    ],
)
def test_a_field_of_another_kind_is_named(tmp_path: Path, place: tuple[Any, ...], value: Any, message: str) -> None:
    path = tmp_path / "r.json"
    Played([1, 0, 1]).result().write(path)
    values = json.loads(path.read_text())
    inner = values
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path.write_text(json.dumps(values))
    with pytest.raises(DataError, match=rf"r\.json.*{message}") as caught:
        read_entries([path])
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    Played([1, 0, 1]).result().write(path)
    whole = json.loads(path.read_text())
    for name in ("episodes", "summary", "header_fields", "detail_fields", "env_id", "tasks"):
        path.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        with pytest.raises(DataError, match=rf"r\.json: {name} is missing"):
            EvaluationResult.read(path)


def test_an_episode_that_a_file_holds_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    Played([1, 0, 0], seeds=(0, 1)).result().write(path)
    values = json.loads(path.read_text())
    values["episodes"] += values["episodes"][:2]
    path.write_text(json.dumps(values))
    summary = EvaluationResult.read(path).summary
    assert (summary.n_ok, summary.n_missing) == (6, 0)
    assert summary.success.value == pytest.approx(1 / 3)

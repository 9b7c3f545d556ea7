"""Result files: written by one process, into a place that can be written to, by one evaluation."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

import tests.toy  # noqa: F401  registers toy/Door-v0
from agent_gym.support.errors import AgentGymError, ConfigError, DataError
from benchmarks.evaluation.output import require_same
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.run import evaluate

DOOR = "toy/Door-v0"


def test_a_second_evaluation_into_one_file_is_refused_and_names_the_process(tmp_path: Path) -> None:
    config = EvalConfig(DOOR, episodes=3, output=tmp_path / "r.json")
    refused = []

    def start_another(row: object) -> None:
        for resume in (True, False):
            with pytest.raises(
                AgentGymError, match=f"being written by process {os.getpid()}; wait for it"
            ) as caught:
                evaluate(dataclasses.replace(config, resume=resume), "oracle")
            refused.append(str(caught.value))

    evaluate(config, "oracle", on_episode=start_another)
    assert len(refused) == 6
    assert not any("\n" in message for message in refused)
    assert len(json.loads(config.output.read_text())["episodes"]) == 3  # type: ignore[union-attr]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.episodes.jsonl", "r.json"]
    assert evaluate(dataclasses.replace(config, resume=True), "oracle").complete


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = EvalConfig(DOOR, episodes=1, output=tmp_path / "file" / "deep" / "r.json")
    with pytest.raises(DataError, match=r"cannot write .*deep/r\.json: .*/file is a file where a folder is needed"):
        evaluate(below, "oracle")
    with pytest.raises(ConfigError, match=r"is a folder; --output takes a file"):
        evaluate(EvalConfig(DOOR, episodes=1, output=tmp_path), "oracle")
    if Path("/proc/self").is_dir():
        with pytest.raises(DataError, match=r"cannot write /proc/none/r\.json: .*; give a place"):
            evaluate(EvalConfig(DOOR, episodes=1, output=Path("/proc/none/r.json")), "oracle")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": {"spec": "random", "sampling": {"top_p": 1.0}}}, "its agent spec is 'oracle', but 'random' is"),
        ({"agent": {"spec": "oracle", "sampling": {"top_p": 0.5}}}, "its agent sampling top_p is 1.0, but 0.5 is"),
        ({"agent": {"spec": "oracle"}}, "its agent sampling is .*, but not set is"),
        ({"tasks": {"count": 4, "digest": "a"}}, "its tasks count is 3, but 4 is"),
        ({"seeds": [1]}, r"its seeds is \[0\], but \[1\] is"),
    ],
)
def test_another_evaluation_is_told_apart_by_the_field_that_differs(change: dict[str, Any], message: str) -> None:
    header = {
        "agent": {"spec": "oracle", "sampling": {"top_p": 1.0}},
        "tasks": {"count": 3, "digest": "a"},
        "seeds": [0],
    }
    require_same(header, header, Path("r.json"))
    with pytest.raises(ConfigError, match=f"r.json is of another evaluation: {message}"):
        require_same(header, {**header, **change}, Path("r.json"))

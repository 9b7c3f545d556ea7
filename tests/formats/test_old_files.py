"""Files of version 0.1.0 as they lay on a disk: they are read, compared and gone on with.

`files/run` was stopped after three of four iterations, `files/whole` holds the results of the same run unbroken;
`files/stopped` was killed within an evaluation of six episodes, `files/results` holds whole ones of the same tasks.
All are of generated rooms. They stay as they are: what cannot read them any more breaks its users' runs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from agent_gym.play.episode import read_episodes
from tests.cli.command import agent_gym
from trainers.policy.policy import Policy
from trainers.run.checkpoint import open_checkpoint

FILES = Path(__file__).parent / "files"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a copy of the files."""
    return Path(shutil.copytree(FILES, tmp_path / "files"))


def command(*arguments: str | Path) -> str:
    """Run the command and return what it prints."""
    done = agent_gym(*map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file without their timings."""
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def played(path: Path) -> list[tuple[str, int, int | None, str]]:
    """Return which episodes a file holds, and their first observations."""
    return [
        (episode.task_id, episode.seed, episode.group_id, episode.turns[0].observation)
        for episode in read_episodes(path)
    ]


def test_the_settings_of_a_run_mean_what_they_meant(files: Path) -> None:
    file = files / "run" / "config.json"
    stored, shown = (
        _flat(json.loads(file.read_text("utf-8"))),
        _flat(json.loads(command("train", "--config", file, "--show"))),
    )
    assert {name: value for name, value in stored.items() if shown.get(name) != value} == {}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def test_a_checkpoint_gives_back_its_weights(files: Path) -> None:
    checkpoint = open_checkpoint(files / "run" / "checkpoints" / "step-00000003")
    stored = load_file(checkpoint.model_folder / "model.safetensors")
    policy = Policy.load(str(checkpoint.model_folder), device="cpu")
    held = dict(policy.model.state_dict())
    assert stored
    assert all(held[name].equal(value) for name, value in stored.items())


def test_a_stopped_run_is_gone_on_with(files: Path) -> None:
    run, whole = files / "run", files / "whole"
    before = rows(run / "metrics.jsonl")
    command("train", "--resume", run)
    metrics, unbroken = rows(run / "metrics.jsonl"), rows(whole / "metrics.jsonl")
    assert metrics[:3] == before
    assert [row["iteration"] for row in metrics] == [0, 1, 2, 3]
    assert set(unbroken[3]) <= set(metrics[3])
    assert metrics[3]["optim/learning_rate"] == unbroken[3]["optim/learning_rate"]
    # Tasks and seeds are the same on every machine; sampled texts and weights are so to the last bit on one only.
    assert played(run / "episodes" / "iteration-00003.jsonl") == played(whole / "iteration-00003.jsonl")
    summary, expected = (json.loads((path / "summary.json").read_text("utf-8")) for path in (run, whole))
    assert set(expected) <= set(summary)
    assert summary["after"]["test"]["tasks_digest"] == expected["after"]["test"]["tasks_digest"]
    assert rows(run / "warnings.jsonl")[:1] == rows(FILES / "run" / "warnings.jsonl")


def test_the_report_of_a_run_is_written_and_names_its_warning(files: Path) -> None:
    command("report", files / "run", "--output", files / "report.html")
    assert "KL to the reference is 2.14 nats a token" in (files / "report.html").read_text("utf-8")


def test_a_policy_is_evaluated(files: Path) -> None:
    shown = command("eval", "--agent", f"run:{files / 'run'}", "--episodes", "2", "--json")
    assert json.loads(shown)["n_ok"] == 2


def test_a_killed_evaluation_is_gone_on_with_to_the_same_result(files: Path) -> None:
    output = files / "stopped" / "oracle.json"
    stored = json.loads(output.read_text("utf-8"))
    assert not stored["complete"]
    chosen = ("--env", "Sokoban-v0", "--agent", "oracle", "--episodes", "6", "--output", output)
    command("eval", *chosen, "--resume")
    result, whole = (json.loads(path.read_text("utf-8")) for path in (output, FILES / "results" / "oracle.json"))
    assert result["complete"]
    for name in ("env_id", "split", "tasks", "seeds", "max_turns", "agent"):
        assert result[name] == whole[name]
    for name in ("n_ok", "n_error", "success", "score", "reward", "turns", "stop_reasons"):
        assert result["summary"][name] == whole["summary"][name]
    assert [_identity(row) for row in result["episodes"]] == [_identity(row) for row in whole["episodes"]]
    recorded = {each[:2] for each in played(FILES / "results" / "oracle.episodes.jsonl")}
    assert {each[:2] for each in played(output.with_suffix(".episodes.jsonl"))} == recorded


def _identity(row: dict[str, Any]) -> list[Any]:
    return [row[name] for name in ("task_id", "seed", "episode_seed", "success", "reward", "turns", "stop_reason")]


def test_results_are_compared_to_the_same_board(files: Path) -> None:
    command("leaderboard", files / "results", "--json", files / "again.json")
    assert json.loads((files / "again.json").read_text("utf-8")) == json.loads(
        (FILES / "board.json").read_text("utf-8")
    )


def test_a_board_stands_beside_a_result_of_today(files: Path) -> None:
    chosen = ("--env", "Sokoban-v0", "--agent", "oracle", "--episodes", "6", "--output", files / "today.json")
    command("eval", *chosen)
    shown = command("leaderboard", files / "board.json", files / "today.json")
    assert "random" in shown
    assert "6 tasks, list e084345f30b7" in shown
    assert shown.count("tasks, list") == 1


def test_recorded_episodes_replay_exactly_and_are_shown(files: Path) -> None:
    for file in (files / "results" / "random.episodes.jsonl", files / "run" / "episodes" / "iteration-00000.jsonl"):
        assert "replay exactly" in command("replay", file)
    command("view", files / "results", files / "run", "--output", files / "page.html")
    assert (files / "page.html").stat().st_size > 10_000

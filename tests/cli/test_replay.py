"""`agent-gym replay`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import agent_gym, assert_one_line_error


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of the expert."""
    file = tmp_path_factory.mktemp("recorded") / "oracle.jsonl"
    done = agent_gym("play", "--agent", "oracle", "--delay", "0", "--seed", "5", "-n", "2", "--record", str(file))
    assert done.returncode == 0, done.stderr
    return file


def test_recorded_episodes_replay_exactly(recorded: Path) -> None:
    done = agent_gym("replay", str(recorded))
    assert done.returncode == 0, done.stderr
    assert "2 of 2 episodes replay exactly" in done.stdout
    assert "1 of 1 episodes" in agent_gym("replay", str(recorded), "--limit", "1").stdout


def test_show_prints_the_turns(recorded: Path) -> None:
    text = agent_gym("replay", str(recorded), "--show").stdout
    assert "<action>" in text
    assert "success" in text


def test_an_episode_that_does_not_replay_is_told_and_exits_1(recorded: Path, tmp_path: Path) -> None:
    first, second = recorded.read_text("utf-8").splitlines()
    changed = json.loads(second)
    changed["turns"][0]["reward"] += 1.0
    file = tmp_path / "changed.jsonl"
    file.write_text(first + "\n" + json.dumps(changed) + "\n", encoding="utf-8")
    done = agent_gym("replay", str(file))
    assert done.returncode == 1
    assert "1 of 2 episodes replay exactly" in done.stdout
    assert f"episode 1 ({changed['task_id']})" in done.stdout
    assert "reward" in done.stdout


def test_files_that_are_not_there_or_not_episodes_are_one_line(tmp_path: Path) -> None:
    assert_one_line_error(agent_gym("replay", str(tmp_path / "none.jsonl")), "none.jsonl")
    (tmp_path / "odd.jsonl").write_text("[1]\n")
    assert_one_line_error(agent_gym("replay", str(tmp_path / "odd.jsonl")), "line 1", "expected a file of episodes")


def test_a_cut_last_episode_is_a_warning_of_one_line(recorded: Path, tmp_path: Path) -> None:
    first, second = recorded.read_text("utf-8").splitlines()
    (tmp_path / "cut.jsonl").write_text(first + "\n" + second[:-9], encoding="utf-8")
    done = agent_gym("replay", str(tmp_path / "cut.jsonl"))
    assert done.returncode == 0
    assert done.stderr.startswith("warning: ") and done.stderr.count("\n") == 1

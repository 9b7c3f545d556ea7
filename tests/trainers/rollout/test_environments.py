"""Runs over several environments and over stages of difficulty: shares, metrics, evaluation, exact resume."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from agent_gym.play.episode import read_episodes
from tests.trainers.runs import SMALL, episode_texts, metrics, summary, train
from trainers.run.folder import RunFolder
from trainers.run.metrics import ENV_METRICS, EVALUATION_METRICS
from trainers.settings.reading import resolve_config

EASY, HARD = {"max_moves": 3, "max_turns": 4}, {"max_moves": 5, "max_turns": 5}
HOUSE = {"receptacles": 3, "objects": 2, "openable": 0.0, "task_types": ["pick_and_place_simple"], "max_turns": 6}


def run(path: Path, env: dict[str, Any], iterations: int = 4, **sections: Any) -> RunFolder:
    shared = {"prompt": "compact", "history_length": 0}
    values: dict[str, Any] = {**SMALL, "env": {**shared, **env}, "iterations": iterations}
    values["algorithm"] = {**SMALL["algorithm"], "max_tries": 1}
    values["cloning"] = {**SMALL["cloning"], "episodes": 12, "epochs": 1}
    values["evaluation"] = {"episodes": 4, "every": 2}
    values["rollout"] = {**SMALL["rollout"], "max_context_tokens": 400, **sections.pop("rollout", {})}
    return RunFolder.create(path, resolve_config(values | sections))


STAGES = [{"options": EASY, "iterations": 2}, {"options": HARD}]
MIX = {
    "mix": [
        {"id": "Sokoban-v0", "weight": 2, "stages": STAGES},
        {"id": "ALFWorld-v0", "name": "House", "options": HOUSE, "prompt": "compact"},
    ]
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two environments, one of them with a curriculum."""
    folder = run(tmp_path_factory.mktemp("mix") / "run", MIX)
    train(folder)
    return folder


def test_groups_are_shared_by_weight_and_each_environment_has_its_metrics(mixed: RunFolder) -> None:
    rows = metrics(mixed.path)
    assert [(row["env/Sokoban/groups"], row["env/House/groups"]) for row in rows] == [(2, 1)] * 4
    for row in rows:
        shares = [(2 / 3, row["env/Sokoban/success"]), (1 / 3, row["env/House/success"])]
        assert row["rollout/success"] == pytest.approx(sum(weight * value for weight, value in shares))
        named = {name for name in row if name.startswith("env/")}
        assert named == {f"env/{part}/{name}" for part in ("Sokoban", "House") for name in ENV_METRICS} - {
            "env/House/stage"
        }
    assert [row["env/Sokoban/stage"] for row in rows] == [1, 1, 2, 2]


def test_each_environment_is_evaluated_alone_and_all_together(mixed: RunFolder) -> None:
    row = metrics(mixed.path)[1]
    for prefix in ("test", "test/Sokoban", "test/House"):
        assert {f"{prefix}/{name}" for name in EVALUATION_METRICS} <= set(row)
    after = summary(mixed.path)["after"]
    assert list(after) == ["test", "test/Sokoban", "test/House"]
    assert after["test"]["n_ok"] == after["test/Sokoban"]["n_ok"] + after["test/House"]["n_ok"] == 4
    assert {kind.partition(": ")[0] for kind in after["test"]["by_type"]} == {"Sokoban", "House"}
    tested = list(read_episodes(mixed.episodes / "test-Sokoban-after.jsonl"))
    assert {episode.env_kwargs["max_moves"] for episode in tested} == {5}  # the last stage
    assert (mixed.episodes / "test-House-after.jsonl").is_file()


def test_a_stage_plays_its_own_tasks(mixed: RunFolder) -> None:
    played = [
        {episode.env_kwargs["max_moves"] for episode in read_episodes(path) if "Sokoban" in episode.env_id}
        for path in sorted(mixed.episodes.glob("iteration-*.jsonl"))
    ]
    assert played == [{3}, {3}, {5}, {5}]


def test_a_mix_with_a_curriculum_resumes_to_the_same_weights(mixed: RunFolder, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", MIX)
    asked = itertools.count()
    for stop in (1, 1, 99):  # inside the first stage, at its end, and on
        asked = itertools.count()
        train(RunFolder.open(folder.path), lambda asked=asked, stop=stop: next(asked) > stop)  # type: ignore[misc]
    assert summary(folder.path) == summary(mixed.path)
    assert metrics(folder.path) == metrics(mixed.path)
    assert episode_texts(folder.path) == episode_texts(mixed.path)


def test_the_same_environment_twice_needs_names_and_shares_types(tmp_path: Path) -> None:
    mix = [{"id": "Sokoban-v0", "name": name, "options": options} for name, options in (("a", EASY), ("b", HARD))]
    folder = run(tmp_path / "run", {"mix": mix}, iterations=1, evaluation={"episodes": 2})
    train(folder)
    (row,) = metrics(folder.path)
    assert row["env/a/groups"] + row["env/b/groups"] == 3


def test_a_success_stage_waits_for_its_success(tmp_path: Path) -> None:
    stages = [{"options": EASY, "success": 1.0}, {"options": HARD}]
    folder = run(tmp_path / "run", {"id": "Sokoban-v0", "stages": stages}, evaluation={"episodes": 2})
    train(folder)
    assert [row["curriculum/stage"] for row in metrics(folder.path)] == [1, 1, 1, 1]

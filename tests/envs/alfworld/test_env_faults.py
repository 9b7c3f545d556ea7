"""Missing, broken and hostile data: clear errors by name, at once, and the good games go on."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agent_gym.envs.alfworld.env import ALFWorldEnv
from agent_gym.support.errors import AgentGymWarning, DataError
from tests.envs.alfworld.tiny import GOALS, content, problem

TASK = "pick_and_place_simple-Mug-None-Desk-301"
GOOD = ("train/" + TASK + "/good_1", "train/" + TASK + "/good_2")


def _game(root: Path, trial: str, text: str) -> Path:
    folder = root / "json_2.1.1" / "train" / TASK / trial
    folder.mkdir(parents=True)
    (folder / "game.tw-pddl").write_text(text)
    return folder / "game.tw-pddl"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with two good games."""
    for task_id in GOOD:
        _game(tmp_path, task_id.rpartition("/")[2], json.dumps(content(GOALS["place"])))
    return tmp_path


def _changed(**changes: Any) -> str:
    return json.dumps(content() | changes)


OLD_GRAMMAR = 'template :: "put {o} in/on {r}"\n"task": [{"rhs": "Your task is to: put a mug in desk."}]'
UNREADABLE = {
    "truncated": (_changed()[:500], "may be truncated"),
    "foreign": ("[1, 2, 3]", "holds a JSON list"),
    "empty": ("", "not whole JSON"),
    "nested": ("[" * 200_000 + "]" * 200_000, "nests JSON values too deeply"),
    "big": ('"' + "x" * 100_000_000 + '"', "100,000,002 bytes"),
}
UNPLAYABLE = {
    "other_object": (json.dumps({"solvable": True, "name": "recipe"}), "needs a text under 'pddl_problem'"),
    "predicate": (_changed(pddl_problem=problem(extra_facts="(isPurple Mug_bar_a)")), "predicate 'ispurple'"),
    "goal": (
        _changed(pddl_problem=problem("(exists (?o - object) (isHot ?o))")),
        "goal is none of the six ALFWorld shapes",
    ),
    "deep": (_changed(pddl_problem="(" * 100_000 + ")" * 100_000), "nests more than 40 brackets"),
    "unclosed": (_changed(pddl_problem=problem()[:-30]), "unclosed brackets; the file looks truncated"),
    "formats": (
        _changed(grammar=OLD_GRAMMAR, pddl_domain="(define (domain alfred) (:action help))"),
        r"mixes formats: its grammar speaks 0\.3, its domain 0\.4",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_is_no_game_is_left_out_with_a_warning(data: Path, name: str) -> None:
    text, message = UNREADABLE[name]
    _game(data, name, text)
    begin = time.perf_counter()
    with pytest.warns(AgentGymWarning, match=rf"1 game files cannot be read.*{name}.*{message}"):
        env = ALFWorldEnv(data=data)
    assert time.perf_counter() - begin < 20
    assert tuple(env.tasks.ids) == GOOD
    _plays(env)


@pytest.mark.parametrize("name", UNPLAYABLE)
def test_a_game_that_cannot_be_played_fails_alone_and_by_name(data: Path, name: str) -> None:
    text, message = UNPLAYABLE[name]
    _game(data, name, json.dumps({**json.loads(text), "solvable": True}))
    env = ALFWorldEnv(data=data)
    assert len(env.tasks) == 3
    _plays(env)
    begin = time.perf_counter()
    with pytest.raises(DataError, match=rf"(?s){name}.*{message}"):
        env.reset(options={"task_id": f"train/{TASK}/{name}"})
    assert time.perf_counter() - begin < 20
    with pytest.raises(ResetNeeded):
        env.step("look")
    _plays(env)


def _plays(env: ALFWorldEnv) -> None:
    for task_id in GOOD:
        _, info = env.reset(options={"task_id": task_id})
        while not info["stop_reason"]:
            *_, info = env.step(env.oracle_action())
        assert info["success"]


def test_good_games_of_both_text_formats_play_side_by_side(data: Path) -> None:
    _game(data, "old", _changed(grammar=OLD_GRAMMAR, pddl_domain="(define (domain alfred))"))
    env = ALFWorldEnv(data=data)
    _, info = env.reset(options={"task_id": f"train/{TASK}/old"})
    assert (info["goal"], "help" in info["admissible_actions"]) == ("put a mug in desk", True)
    _plays(env)


def test_missing_data_name_the_folder_and_the_remedy(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(DataError, match=rf"(?s){missing}.*alfworld-download"):
        ALFWorldEnv(data=missing)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=rf"(?s){empty}.*found nothing.*alfworld-download"):
        ALFWorldEnv(data=empty)
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    with pytest.raises(DataError, match=r"holds no playable ALFWorld game.*alfworld-download"):
        ALFWorldEnv(data=tmp_path)


def test_a_file_that_goes_away_or_changes_is_noticed(data: Path) -> None:
    env = ALFWorldEnv(data=data)
    _plays(env)
    file = data / "json_2.1.1" / GOOD[0] / "game.tw-pddl"
    file.write_text(_changed(task="put some mug on desk"))
    assert env.reset(options={"task_id": GOOD[0]})[1]["goal"] == "put some mug on desk"
    file.unlink()
    with pytest.raises(DataError, match=r"good_1.*cannot be read"):
        env.reset(options={"task_id": GOOD[0]})


def test_tasks_have_one_order_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    names = [f"trial_{number:02d}" for number in range(30)]
    orders = []
    for seed in range(2):
        root = tmp_path / str(seed)
        for name in random.Random(seed).sample(names, len(names)):
            _game(root, name, _changed())
        env = ALFWorldEnv(data=root)
        orders.append((list(env.tasks.ids), [env.reset(seed=seed)[1]["task_id"] for seed in range(20)]))
    assert orders[0] == orders[1]
    assert orders[0][0] == [f"train/{TASK}/{name}" for name in names]


def _run(*arguments: str, cache: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "agent_gym.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "AGENT_GYM_CACHE": str(cache)},
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_command_line_says_what_is_wrong_without_a_traceback(data: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    play = ("play", "--env", "ALFWorld-v0", "--agent", "oracle", "--delay", "0", "--option", f"data={data}")
    text, _ = UNPLAYABLE["goal"]
    _game(data, "odd", text)
    code, said = _run(*play, "--task", f"train/{TASK}/odd", cache=cache)
    assert (code, "none of the six ALFWorld shapes" in said) == (2, True)
    code, said = _run(*play, "--task", GOOD[0], cache=cache)
    assert code == 0


@pytest.mark.parametrize("command", [("play", "--agent", "oracle", "--delay", "0"), ("eval", "--agent", "oracle")])
def test_commands_on_an_empty_folder_say_where_to_get_the_data(tmp_path: Path, command: tuple[str, ...]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    arguments = (*command, "--env", "ALFWorld-v0", "--split", "valid_seen", "--option", f"data={empty}")
    code, said = _run(*arguments, cache=tmp_path / "cache")
    assert (code, "alfworld-download" in said) == (2, True)

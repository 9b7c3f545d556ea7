"""The engine replays recorded runs of the stock engine without a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.game import load_game
from agent_gym.envs.alfworld.world.gamefile import TextFormat
from tests.data import read_jsonl


def _differences(run: dict[str, Any], root: Path) -> tuple[int, list[str]]:
    game = load_game(root / run["game"] / "game.tw-pddl")
    state = GameState(game, TextFormat(run["text"]))
    found = []
    if (state.reset(), state.admissible(), state.won) != (run["intro"], run["admissible"], run["won"]):
        found.append(f"{run['game']}: reset")
    for index, step in enumerate(run["steps"]):
        feedback = state.step(step["command"])
        got = (feedback, state.admissible(), state.won, int(state.won), state.moves)
        expected = tuple(step[key] for key in ("feedback", "admissible", "won", "reward", "moves"))
        if got != expected:
            found.append(f"{run['game']} step {index} {step['command']!r}: {got} instead of {expected}")
    return len(run["steps"]), found


@pytest.mark.parametrize(("name", "runs", "steps"), [("traces", 50, 2528), ("wins", 18, 218)])
def test_recorded_runs_replay_without_a_difference(real_data: Path, name: str, runs: int, steps: int) -> None:
    recorded = read_jsonl(f"alfworld/stock_engine_{name}.jsonl.xz")
    results = [_differences(run, real_data / "json_2.1.1") for run in recorded]
    assert [line for _, lines in results for line in lines] == []
    assert (len(results), sum(count for count, _ in results)) == (runs, steps)


def test_recorded_wins_end_with_a_win_of_every_task_type(real_data: Path) -> None:
    types = set()
    for run in read_jsonl("alfworld/stock_engine_wins.jsonl.xz"):
        state = GameState(load_game(real_data / "json_2.1.1" / run["game"] / "game.tw-pddl"), TextFormat.V04)
        for step in run["steps"]:
            assert step["command"] in state.admissible()
            state.step(step["command"])
        assert state.won
        types.add(state.game.task_type)
    assert len(types) == 6

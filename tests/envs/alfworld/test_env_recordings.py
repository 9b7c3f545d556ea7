"""Recorded runs of the stock engine replay through the environment, up to the win."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

import agent_gym  # noqa: F401 (registers the ids)
from tests.data import read_jsonl

LIMIT = 50
"""The default number of turns."""


def _replay(env: gym.Env[str, str], run: dict[str, Any]) -> tuple[int, str]:
    """Compare a run with the environment turn by turn; returns the turns played and why the episode ended."""
    observation, info = env.reset(options={"task_id": run["game"]})
    assert observation == run["intro"]
    assert list(info["admissible_actions"]) == run["admissible"]
    assert (info["success"], info["alfworld/moves"], info["turn"]) == (run["won"], 0, 0)
    moves = 0
    for turn, step in enumerate(run["steps"], 1):
        observation, reward, terminated, truncated, info = env.step(step["command"])
        assert observation == step["feedback"]
        assert (reward, terminated, info["success"], info["score"]) == (
            step["reward"],
            step["won"],
            step["won"],
            step["reward"],
        )
        assert info["valid_action"] is (step["moves"] > moves)
        assert (info["alfworld/moves"], info["turn"]) == (step["moves"], turn)
        moves = step["moves"]
        assert truncated is (turn == LIMIT and not step["won"])
        if terminated or truncated:
            assert info["admissible_actions"] == ()
            with pytest.raises(ResetNeeded):
                env.step("look")
            return turn, info["stop_reason"]
        assert list(info["admissible_actions"]) == step["admissible"]
    return len(run["steps"]), info["stop_reason"]


@pytest.mark.parametrize("text", ["0.4", "0.3"])
@pytest.mark.parametrize("name", ["traces", "wins"])
def test_recorded_runs_replay_up_to_the_win_or_the_limit(real_data: Path, name: str, text: str) -> None:
    runs = [run for run in read_jsonl(f"alfworld/stock_engine_{name}.jsonl.xz") if run["text"] == text]
    splits = {run["game"].partition("/")[0] for run in runs}
    envs = {split: gym.make("agent_gym/ALFWorld-v0", data=real_data, split=split, text=text) for split in splits}
    ends = {"": 0, "success": 0, "max_turns": 0}
    for run in runs:
        turns, reason = _replay(envs[run["game"].partition("/")[0]], run)
        won = next((turn for turn, step in enumerate(run["steps"], 1) if step["won"]), None)
        assert turns == min(won or len(run["steps"]), LIMIT)
        ends[reason] += 1
    recorded_wins = sum(any(step["won"] for step in run["steps"][:LIMIT]) for run in runs)
    long = sum(len(run["steps"]) >= LIMIT for run in runs) - sum(
        any(step["won"] for step in run["steps"][:LIMIT]) and len(run["steps"]) >= LIMIT for run in runs
    )
    assert ends == {"": len(runs) - recorded_wins - long, "success": recorded_wins, "max_turns": long}

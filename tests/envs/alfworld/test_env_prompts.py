"""What a prompt holds: the goal comes from info and stands in its own segment only."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_gym  # noqa: F401 (registers the ids)
from agent_gym.core.prompts import Exchange, PromptBuilder, Segment, template_for
from agent_gym.wrappers import ReplyWrapper


def _sources(real_data: Path) -> list[dict[str, Any]]:
    real = {"data": real_data, "split": "valid_seen"}
    return [{}, real, {**real, "goals": "human"}, {**real, "text": "0.3"}, {"feedback": "explain"}]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("template", ["prompt", "compact"])
def test_the_goal_stands_in_its_segment_and_nowhere_else(real_data: Path, number: int, template: str) -> None:
    env: Any = gym.make("agent_gym/ALFWorld-v0", **_sources(real_data)[number])
    builder = PromptBuilder(template_for(env, template), history_length=3)
    rng = random.Random(number)
    for seed in range(6):
        observation, info = env.reset(seed=seed)
        goal, history, seen = info["goal"], [], info["prompt_observation"]
        assert observation.endswith(f"Your task is to: {goal}.")
        assert observation == f"{seen}\n\nYour task is to: {goal}."
        for _ in range(8):
            assert goal not in info["prompt_observation"]
            prompt = builder.prompt(info, history)
            assert goal in prompt.segments[Segment.GOAL]
            assert prompt.text().count(goal) == 1
            assert goal not in prompt.masked({Segment.GOAL}).text()
            masked = prompt.masked({Segment.GOAL, Segment.HISTORY}).text()
            assert goal not in masked
            assert "Your task" not in masked
            action = rng.choice([*info["admissible_actions"], "no such command"])
            *_, info = env.step(action)
            if info["stop_reason"]:
                break
            history.append(Exchange(seen, action))
            seen = info["prompt_observation"]


def test_the_goal_is_told_by_info_when_no_observation_holds_it() -> None:
    env: Any = gym.make("agent_gym/ALFWorld-v0")
    _, first = env.reset(seed=4)
    for action in ("look", "inventory", "no such command"):
        observation, *_, info = env.step(action)
        assert info["goal"] == first["goal"]
        assert first["goal"] not in observation


def test_observations_after_the_first_are_shown_as_they_are() -> None:
    env: Any = gym.make("agent_gym/ALFWorld-v0")
    _, info = env.reset(seed=4)
    for _ in range(20):
        action = info["admissible_actions"][info["turn"] % len(info["admissible_actions"])]
        observation, *_, info = env.step(action)
        assert info["prompt_observation"] == observation.rstrip("\n")
        if info["stop_reason"]:
            break


def test_equal_states_have_equal_anchors_whatever_came_before() -> None:
    env: Any = gym.make("agent_gym/ALFWorld-v0")
    _, info = env.reset(seed=2)
    places = [action for action in info["admissible_actions"] if action.startswith("go to ")]
    direct, around = places[0], places[-1]
    *_, short = env.step(direct)
    env.reset(seed=2)
    for action in (around, "look", "inventory", "no such command", direct):
        *_, long = env.step(action)
    assert long["anchor"] == short["anchor"]
    assert long["turn"] != short["turn"]
    assert info["goal"] not in short["anchor"]


def test_the_observation_can_serve_as_the_anchor() -> None:
    env: Any = gym.make("agent_gym/ALFWorld-v0", anchor="observation")
    observation, info = env.reset(seed=2)
    assert info["anchor"] == observation
    observation, *_, info = env.step("inventory")
    assert info["anchor"] == observation == "You are not carrying anything."


@pytest.mark.parametrize(
    ("feedback", "answer"),
    [("original", "Nothing happens."), ("explain", "Nothing happens. The reply holds no action")],
)
def test_rejected_replies_answer_as_the_original_or_say_why(feedback: str, answer: str) -> None:
    env = ReplyWrapper(gym.make("agent_gym/ALFWorld-v0", feedback=feedback))
    env.reset(seed=0)
    observation, *_, info = env.step("hello")
    assert observation.startswith(answer)
    assert (info["valid_action"], info["valid_format"]) == (False, False)

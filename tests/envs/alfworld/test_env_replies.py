"""Spellings: the environment is exact, the lenient reply parser maps what other versions and models write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_gym  # noqa: F401 (registers the ids)
from agent_gym.envs.alfworld.grammar import canonical
from agent_gym.envs.alfworld.world.gamefile import TextFormat
from agent_gym.wrappers import ReplyWrapper
from tests.envs.alfworld.tiny import GOALS, content

SPELLINGS = ("put mug 1 in/on desk 1", "put mug 1 on desk 1", "move mug 1 to desk 1")
ENGINE_FORM = {"0.4": "move mug 1 to desk 1", "0.3": "put mug 1 in/on desk 1"}
FETCH = ("go to countertop 1", "take mug 1 from countertop 1", "go to desk 1")
LOOKING = ("look", "help", "inventory", "examine")
KITCHEN = content(GOALS["place"])


def _at_the_desk(text: str, mode: str | None = None) -> gym.Env[str, str]:
    """Return an environment in which "mug 1" is in hand and "desk 1" is its goal."""
    env: Any = gym.make("agent_gym/ALFWorld-v0", text=text)
    env.reset(options={"task": KITCHEN})
    for command in FETCH:
        *_, info = env.step(command)
        assert info["valid_action"], command
    return env if mode is None else ReplyWrapper(env, mode=mode)


@pytest.mark.parametrize("text", ["0.4", "0.3"])
@pytest.mark.parametrize("spelling", SPELLINGS)
class TestVersionsOfPut:
    def test_the_lenient_parser_maps_every_version_to_the_engines(self, text: str, spelling: str) -> None:
        env = _at_the_desk(text, "lenient")
        _, reward, terminated, _, info = env.step(f"<action>{spelling}</action>")
        assert (info["action"], info["valid_format"], info["valid_action"]) == (ENGINE_FORM[text], True, True)
        assert (reward, terminated, info["success"]) == (1.0, True, True)

    def test_the_strict_parser_and_the_environment_take_the_engines_only(self, text: str, spelling: str) -> None:
        exact = spelling == ENGINE_FORM[text]
        for env, action in (
            (_at_the_desk(text), spelling),
            (_at_the_desk(text, "strict"), f"<action>{spelling}</action>"),
        ):
            observation, reward, terminated, _, info = env.step(action)
            assert (info["valid_action"], terminated, reward) == (exact, exact, float(exact))
            assert (observation == "Nothing happens.") is not exact


@pytest.mark.parametrize(
    "spelling",
    [
        "go to desk 1<|im_end|>",
        "Go to Desk 1.",
        "go to desk 1</s>",
        "  GO  TO desk 1 ! ",
        "`go to desk 1`",
        '"Go to desk 1."',
    ],
)
def test_markers_capitals_and_full_stops_count_for_the_lenient_parser_only(spelling: str) -> None:
    env: Any = gym.make("agent_gym/ALFWorld-v0")
    env.reset(options={"task": KITCHEN})
    assert not env.step(spelling)[4]["valid_action"]
    *_, info = ReplyWrapper(env, mode="strict").step(f"<action>{spelling}</action>")
    assert not info["valid_action"]
    observation, *_, info = ReplyWrapper(env).step(f"<action>{spelling}</action><|im_end|>")
    assert (info["action"], info["valid_action"]) == ("go to desk 1", True)
    assert observation.startswith("You arrive at desk 1.")


PREPOSITIONS = ["in", "on", "in/on", "into", "onto", "to"]
WORDS = st.sampled_from(["put", "place", "move", *PREPOSITIONS, "mug 1", "desk 1", ".", "!", " ", "GO", "İ", "ß"])
ACTIONS = st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=9).map(" ".join))


@settings(max_examples=400, deadline=None)
@given(action=ACTIONS, text=st.sampled_from(TextFormat))
def test_mapping_twice_is_mapping_once(action: str, text: TextFormat) -> None:
    once = canonical(action, text)
    assert canonical(once, text) == once


@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 999), text=st.sampled_from(["0.4", "0.3"]))
def test_mapping_never_changes_an_admissible_command(data: st.DataObject, seed: int, text: str) -> None:
    env: Any = gym.make("agent_gym/ALFWorld-Small-v0", text=text)
    _, info = env.reset(seed=seed)
    for _ in range(12):
        for command in info["admissible_actions"]:
            assert canonical(command, TextFormat(text)) == command
            assert env.unwrapped.canonical_action(command) == command
        changes = [
            c for c in info["admissible_actions"] if c.split()[0] not in ("look", "help", "inventory", "examine")
        ]
        *_, terminated, _, info = env.step(data.draw(st.sampled_from(changes)))
        if terminated:
            break


def test_mapping_leaves_the_commands_of_real_games_as_they_are(real_data: Path) -> None:
    for text in ("0.4", "0.3"):
        env: Any = gym.make("agent_gym/ALFWorld-v0", data=real_data, split="valid_seen", text=text)
        for seed in range(15):
            _, info = env.reset(seed=seed)
            while not info["stop_reason"]:
                assert all(canonical(c, TextFormat(text)) == c for c in info["admissible_actions"])
                *_, info = env.step(env.unwrapped.oracle_action())

"""The episode that every adapter plays, which needs none of the frameworks."""

from __future__ import annotations

import copy
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

from agent_gym.adapters.episodes import ChatEpisode, task_rows
from agent_gym.support.errors import ConfigError, UnknownTaskError
from agent_gym.wrappers import MessagesWrapper, ReplyWrapper
from tests.adapters.scripts import ENV_ID, OPTIONS, scripts


def finish(episode, script):
    for reply in script.replies[len(episode.replies) :]:
        episode.answer(reply)
    return episode.total_reward, (
        episode.info["success"],
        episode.terminated,
        episode.truncated,
        episode.info["stop_reason"],
        episode.info["anchor"],
    )


def test_rewards_flags_and_messages_are_those_of_the_wrappers(played):
    episode = ChatEpisode(ENV_ID, OPTIONS)
    env = MessagesWrapper(ReplyWrapper(gym.make(ENV_ID, **OPTIONS)), context="full")
    for script in played:
        messages, _ = env.reset(seed=script.seed, options={"task_id": script.task_id})
        assert episode.start(seed=script.seed, task_id=script.task_id) == messages[-1]["content"]
        for reply, reward in zip(script.replies, script.rewards, strict=True):
            messages, *_ = env.step(reply)
            assert episode.answer(reply) == messages[-1]["content"]
            assert episode.reward == reward
        assert finish(episode, script) == (script.total, script.ending)
        assert episode.summary()["turns"] == len(script.replies)
    assert episode.over
    with pytest.raises(ResetNeeded):
        episode.answer("<action>up</action>")


def test_a_grammar_of_two_tags_plays_alike():
    for script in scripts("agent_gym/SearchQA-v0", {"split": "valid"}, count=4):
        episode = ChatEpisode("SearchQA-v0", {"split": "valid"})
        episode.start(seed=script.seed, task_id=script.task_id)
        assert finish(episode, script) == (script.total, script.ending)


def test_episodes_in_turns_share_nothing(played):
    episodes = [ChatEpisode(ENV_ID, OPTIONS) for _ in played]
    for episode, script in zip(episodes, played, strict=True):
        episode.start(seed=script.seed, task_id=script.task_id)
    for turn in range(3):
        for episode, script in zip(episodes, played, strict=True):
            if turn < len(script.replies):
                episode.answer(script.replies[turn])
    branches = [copy.deepcopy(episode) for episode in episodes]
    for group in (branches, episodes):
        for episode, script in zip(group, played, strict=True):
            assert finish(episode, script) == (script.total, script.ending)


def test_rows_follow_the_set_or_are_drawn_again_equally():
    tasks = gym.make(ENV_ID, **OPTIONS).unwrapped.tasks
    ordered = list(task_rows(ENV_ID, OPTIONS, count=5))
    assert [row["task_id"] for row in ordered] == list(tasks.ids[:5])
    drawn = list(task_rows(ENV_ID, OPTIONS, count=50, seed=3))
    assert drawn == list(task_rows(ENV_ID, OPTIONS, count=50, seed=3))
    assert len({row["seed"] for row in drawn}) == 50
    assert {row["task_id"] for row in drawn} <= set(tasks.ids)
    with pytest.raises(ConfigError, match="count"):
        next(task_rows(ENV_ID, OPTIONS, seed=3))


def test_unknown_tasks_and_options_say_what_is_known():
    with pytest.raises(UnknownTaskError, match="Known ids look like"):
        ChatEpisode(ENV_ID, OPTIONS).start(task_id="nowhere")
    with pytest.raises(ConfigError, match="max_turns"):
        ChatEpisode(ENV_ID, {"maxturns": 3})


def test_a_missing_framework_is_named_with_its_extra():
    code = """
import sys
for name in ("verifiers", "openenv", "skyrl_gym", "gem", "datasets"):
    sys.modules[name] = None
import importlib
from agent_gym.support.errors import ConfigError
for name in ("verifiers", "openenv", "skyrl", "gem"):
    try:
        importlib.import_module(f"agent_gym.adapters.{name}")
    except ConfigError as error:
        assert f"pip install 'agent-gym[{name}]'" in str(error), error
    else:
        raise SystemExit(f"{name} was imported")
from agent_gym.adapters.trl import task_dataset
try:
    task_dataset("Sokoban-v0", count=1)
except ConfigError as error:
    assert "agent-gym[trl]" in str(error)
else:
    raise SystemExit("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

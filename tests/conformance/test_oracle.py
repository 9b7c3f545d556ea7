"""The oracle wins every task through the public action grammar."""

from __future__ import annotations

import copy

import pytest

from agent_gym.core.replies import ReplyMode
from agent_gym.wrappers import ReplyWrapper
from tests.conformance.subjects import accepts, inner, make, play_oracle, spread


def test_the_oracle_wins_a_hundred_tasks_with_admissible_actions_only(env_id: str) -> None:
    env = make(env_id)
    for task_id in spread(env, 100):
        _, info = env.reset(seed=9, options={"task_id": task_id})
        for action, result in play_oracle(env):
            assert accepts(info, action), f"{task_id}: {action!r} is not admissible"
            info = result[4]
            assert info["valid_action"], f"{task_id}: {action!r} was not accepted"
        assert result[2], f"{task_id}: ended by {info['stop_reason']!r}"
        assert info["success"], f"{task_id}: ended by {info['stop_reason']!r}"
        assert info["score"] == 1.0


@pytest.mark.parametrize("mode", ReplyMode)
def test_the_oracle_wins_through_replies(env_id: str, mode: ReplyMode) -> None:
    env = ReplyWrapper(make(env_id), mode=mode)
    for task_id in spread(env, 3):
        env.reset(seed=9, options={"task_id": task_id})
        ended = False
        while not ended:
            action = inner(env).oracle_action()
            reply = inner(env).reply_grammar.wrap(action, "This leads to the goal.")
            _, _, terminated, truncated, info = env.step(reply)
            ended = terminated or truncated
            assert (info["action"], info["valid_format"]) == (action, True)
        assert info["success"]


def test_lenient_spelling_leaves_exact_actions_as_they_are(env_id: str) -> None:
    env = make(env_id)
    _, info = env.reset(seed=3)
    seen = set(info["admissible_actions"])
    for action, result in play_oracle(env):
        seen |= {action, *result[4]["admissible_actions"]}
    for action in seen:
        assert inner(env).canonical_action(action) == action


def test_every_admissible_action_is_accepted(env_id: str) -> None:
    env = make(env_id)
    _, info = env.reset(seed=3)
    for _ in range(3):
        for action in info["admissible_actions"]:
            result = copy.deepcopy(env).step(action)
            assert result[4]["valid_action"], action
            assert result[0] in env.observation_space
        result = play_oracle(env, limit=1)[0][1]
        info = result[4]
        if result[2] or result[3]:
            break

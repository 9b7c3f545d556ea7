"""Gymnasium's vector environments over every id."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode

from agent_gym.core.info import StopReason
from tests.conformance.subjects import inner, make

UNKNOWN = "é √ 你 no such action"


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_vector_environments_show_what_single_ones_show(env_id: str, mode: str) -> None:
    vector: Any = gym.make_vec(env_id, num_envs=2, vectorization_mode=mode)
    singles = [make(env_id) for _ in range(2)]
    try:
        shown, infos = vector.reset(seed=[5, 6])
        alone = [env.reset(seed=seed) for env, seed in zip(singles, (5, 6), strict=True)]
        assert list(shown) == [observation for observation, _ in alone]
        assert list(infos["task_id"]) == [info["task_id"] for _, info in alone]
        for turn in range(3):
            actions = tuple(UNKNOWN if turn == 0 else inner(env).oracle_action() for env in singles)
            shown, rewards, terminated, truncated, infos = vector.step(actions)
            results: list[Any] = [env.step(action) for env, action in zip(singles, actions, strict=True)]
            assert list(shown) == [result[0] for result in results]
            assert list(rewards) == [result[1] for result in results]
            assert list(terminated) == [result[2] for result in results]
            assert list(truncated) == [result[3] for result in results]
            assert list(infos["anchor"]) == [result[4]["anchor"] for result in results]
            if any(result[2] or result[3] for result in results):
                break
    finally:
        vector.close()


def test_the_last_observation_and_info_survive_the_automatic_reset(env_id: str, mode: str) -> None:
    vector: Any = gym.make_vec(
        env_id,
        num_envs=2,
        vectorization_mode=mode,
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        max_turns=2,
    )
    alone = make(env_id, max_turns=2)
    try:
        vector.reset(seed=[5, 6])
        alone.reset(seed=5)
        for _ in range(2):
            shown, _, _, truncated, infos = vector.step((UNKNOWN, UNKNOWN))
            last = alone.step(UNKNOWN)
        assert list(truncated) == [True, True]
        assert infos["final_obs"][0] == last[0]
        assert list(infos["final_info"]["success"]) == [False, False]
        assert list(infos["final_info"]["stop_reason"]) == [StopReason.MAX_TURNS] * 2
        assert list(infos["turn"]) == [0, 0], "the next episode has begun"
        assert shown[0] == alone.reset()[0]
    finally:
        vector.close()

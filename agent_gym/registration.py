"""The ids of the package: what `gymnasium.make` knows, and registering more."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec
from gymnasium.wrappers import TimeLimit

from agent_gym.core.env import TextEnv
from agent_gym.core.make import NAMESPACE, find_spec, full_id, known_ids, make_env

__all__ = [
    "IDS",
    "NAMESPACE",
    "absorb_time_limit",
    "find_spec",
    "full_id",
    "known_ids",
    "make_env",
    "register_all",
    "register_env",
]

_ALFWORLD = "agent_gym.envs.alfworld.env:ALFWorldEnv"
_SEARCHQA = "agent_gym.envs.searchqa.env:SearchQAEnv"
_SOKOBAN = "agent_gym.envs.sokoban.env:SokobanEnv"
_WEBSHOP = "agent_gym.envs.webshop.env:WebShopEnv"
_WEBSHOP_BROWSER = "agent_gym.envs.webshop.browser.env:WebShopBrowserEnv"


IDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Sokoban-v0": (_SOKOBAN, {}),
    "Sokoban-6x6-1-v0": (_SOKOBAN, {"difficulty": "6x6-1"}),
    "Sokoban-6x6-2-v0": (_SOKOBAN, {"difficulty": "6x6-2"}),
    "Sokoban-7x7-2-v0": (_SOKOBAN, {"difficulty": "7x7-2"}),
    "Sokoban-8x8-3-v0": (_SOKOBAN, {"difficulty": "8x8-3"}),
    "Sokoban-10x10-4-v0": (_SOKOBAN, {"difficulty": "10x10-4"}),
    "ALFWorld-v0": (_ALFWORLD, {}),
    "ALFWorld-Small-v0": (_ALFWORLD, {"difficulty": "small"}),
    "ALFWorld-Large-v0": (_ALFWORLD, {"difficulty": "large"}),
    "WebShop-v0": (_WEBSHOP, {}),
    "WebShopBrowser-v0": (_WEBSHOP_BROWSER, {}),
    "SearchQA-v0": (_SEARCHQA, {}),
    "Boxoban-v0": ("agent_gym.envs.sokoban.env:BoxobanEnv", {}),
}
"""Id without namespace -> entry point and options."""


def absorb_time_limit(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """Turn `gym.make(id, max_episode_steps=n)` into `max_turns=n`.

    Gymnasium's `TimeLimit` would mark a win on the last turn as truncated, so it is taken out and the
    environment's own limit set. Registered as an additional wrapper, which `gym.make` applies last.
    """
    if isinstance(env, TimeLimit):
        limit = env._max_episode_steps
        env = env.env
        inner = env.unwrapped
        assert isinstance(inner, TextEnv)
        inner.max_turns = limit
        if inner.spec is not None:
            inner.spec.kwargs["max_turns"] = limit
    return env


def register_env(env_id: str, entry_point: str, **options: Any) -> None:
    """Register a `TextEnv` with Gymnasium, so that `gymnasium.make(env_id)` and every command know it.

    Args:
        env_id: `namespace/Name-v0`.
        entry_point: `module:Class`.
        options: Default keyword arguments of the class.
    """
    gym.register(
        id=env_id,
        entry_point=entry_point,
        kwargs=dict(options),
        # Gymnasium's passive checker fails after a reset that raised (an unknown task id), and costs time at every
        # step; the conformance suite runs its full checker on every id.
        disable_env_checker=True,
        additional_wrappers=(WrapperSpec("absorb_time_limit", "agent_gym.registration:absorb_time_limit", {}),),
    )


def register_all() -> None:
    """Register every id with Gymnasium; importing the package does it."""
    for name, (entry_point, options) in IDS.items():
        register_env(f"{NAMESPACE}/{name}", entry_point, **options)

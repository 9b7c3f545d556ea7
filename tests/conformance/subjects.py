"""The ids that the conformance suite runs over, and how it plays them.

Every registered id of the package takes part, and the toy world of the core's tests; or, to check environments of
one's own, the ids that `AGENT_GYM_CONFORMANCE` names in their place (separated by commas, with the module that
registers them: `module:space/Name-v0`). An id that needs something
beyond the base install (a browser, an external tool) is entered in `REQUIREMENTS`; one whose episodes are
expensive in `EPISODE_BUDGET`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

import tests.toy  # noqa: F401 (registers the toy world)
from agent_gym.core.env import TextEnv
from agent_gym.core.make import known_ids
from agent_gym.envs.webshop.browser.tools import missing_tools

TOY = "toy/Door-v0"
OWN = tuple(filter(None, os.environ.get("AGENT_GYM_CONFORMANCE", "").split(",")))
ALL_IDS = OWN or (*known_ids(), TOY)

BROWSER = "agent_gym/WebShopBrowser-v0"

REQUIREMENTS: dict[str, Callable[[], str]] = {BROWSER: missing_tools}
"""Id -> function that says what is missing to run it here, "" when nothing is."""

EPISODE_BUDGET: dict[str, int] = {BROWSER: 50}
"""Id -> episodes of the memory test, where 10,000 would take too long (an environment that drives a browser)."""

TASK_BUDGET: dict[str, int] = {BROWSER: 5}
"""Id -> tasks that `spread` gives at most, where an episode takes seconds."""

SLOW: frozenset[str] = frozenset({BROWSER})
"""Ids whose tests are marked slow."""

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "agent_gym/Sokoban-v0": ({"coordinates": True}, {"symbols": "xsb", "legend": False}),
    "agent_gym/ALFWorld-v0": ({"text": "0.3"},),
    "agent_gym/WebShop-v0": tuple({"observation": mode} for mode in ("text_rich", "url", "html")),
    "agent_gym/SearchQA-v0": ({"passage_style": "plain", "observation_limit": 200}, {"observation_limit": 50_000}),
}
"""Id -> options that show the same world in other texts."""

Result = tuple[str, float, bool, bool, dict[str, Any]]


def runnable(env_id: str) -> None:
    """Skip the calling test when the id cannot run here, with the reason."""
    missing = REQUIREMENTS.get(env_id, lambda: "")()
    if missing:
        pytest.skip(f"{env_id}: {missing}")


def make(env_id: str, **options: Any) -> gym.Env[str, str]:
    """Make an environment as a user does."""
    return gym.make(env_id, **options)


def inner(env: gym.Env[Any, Any]) -> TextEnv:
    """Return the `TextEnv` inside all wrappers."""
    found = env.unwrapped
    assert isinstance(found, TextEnv)
    return found


def filled(info: dict[str, Any], text: str) -> list[str]:
    """Return the action templates with a text in their place."""
    return [re.sub(r"\{[^{}]*\}", lambda _: text, template) for template in info["action_templates"]]


def spread(env: gym.Env[Any, Any], count: int) -> list[str]:
    """Return up to `count` task ids, evenly spread over the environment's tasks."""
    ids = inner(env).tasks.ids
    spec = env.spec
    count = min(count, len(ids), TASK_BUDGET.get(spec.id if spec else "", count))
    return [ids[place * len(ids) // count] for place in range(count)]


def play_oracle(env: gym.Env[str, str], limit: int = 100_000) -> list[tuple[str, Result]]:
    """Follow the oracle to the end of the running episode; returns actions with their results."""
    played: list[tuple[str, Result]] = []
    while len(played) < limit:
        action = inner(env).oracle_action()
        result = env.step(action)
        played.append((action, result))  # type: ignore[arg-type]
        if result[2] or result[3]:
            break
    return played


def accepts(info: dict[str, Any], action: str) -> bool:
    """Return whether an action is among the admissible ones or has the form of a template."""
    return action in info["admissible_actions"] or any(
        re.fullmatch(_pattern(template), action, re.DOTALL) for template in info["action_templates"]
    )


def _pattern(template: str) -> str:
    pieces = re.split(r"\{[^{}]*\}", template)
    return ".+".join(re.escape(piece) for piece in pieces)

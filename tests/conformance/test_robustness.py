"""Hostile actions and long runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.wrappers import MessagesWrapper, PromptWrapper, ReplyWrapper
from tests.conformance.subjects import EPISODE_BUDGET, TOY, VARIANTS, filled, inner, make, spread

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates included
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


def test_unicode_actions_stay_in_the_space_and_invalid_ones_leave_the_world(env_id: str) -> None:
    _fuzz(make(env_id), 60)
    for options in VARIANTS.get(env_id, ()):
        _fuzz(make(env_id, **options), 25)


def _fuzz(env: Any, examples: int) -> None:
    state = {"info": env.reset(seed=8)[1]}

    def mutated(action: str, extra: str, how: int) -> str:
        return (action + extra, extra + action, action.upper(), action.replace(" ", extra), f"[{action}]")[how]

    @settings(max_examples=examples, deadline=None, database=None)
    @given(extra=ANY_TEXT, plain=st.booleans(), pick=st.integers(0, 1_000), how=st.integers(0, 5))
    def fuzz(extra: str, plain: bool, pick: int, how: int) -> None:
        before = state["info"]
        forms = (*before["admissible_actions"], *before["action_templates"])
        asked = filled(before, extra)
        if plain:
            action = extra
        elif how == 5:
            action = asked[pick % len(asked)] if asked else extra
        else:
            action = mutated(forms[pick % len(forms)], extra, how)
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation in env.observation_space
        assert isinstance(reward, float)
        if not info["valid_action"]:
            assert info["anchor"] == before["anchor"]
            assert info["score"] == before["score"]
            assert not terminated
        state["info"] = env.reset()[1] if terminated or truncated else info

    fuzz()


@pytest.mark.parametrize("character", ["a", "🙂", " é", "<a", "\ud800"])
def test_the_longest_actions_stay_in_the_space_of_every_mode(env_id: str, character: str) -> None:
    for options in ({}, *VARIANTS.get(env_id, ())):
        env = make(env_id, **options)
        longest = inner(env).action_space.max_length  # type: ignore[attr-defined]
        for number in range(len(env.reset(seed=8)[1]["action_templates"]) or 1):
            observation, info = env.reset(seed=8)
            assert observation in env.observation_space
            room = longest - len((filled(info, "") or [""])[number])
            text = f"{info['goal']} {character * room}"[:room]  # a search finds something by the goal's words
            action = (filled(info, text) or [text])[number]
            assert len(action) == longest
            for _ in range(4):  # and on to where it leads
                observation, _, terminated, truncated, info = env.step(action)
                assert observation in env.observation_space
                if terminated or truncated:
                    break
                action = (info["admissible_actions"] or [action])[-1]


WRAPPED: tuple[Callable[[Any], Any], ...] = (
    lambda env: PromptWrapper(ReplyWrapper(env)),
    lambda env: ReplyWrapper(PromptWrapper(env)),
    lambda env: MessagesWrapper(ReplyWrapper(env)),
    lambda env: MessagesWrapper(ReplyWrapper(env), context="full"),
    lambda env: ReplyWrapper(MessagesWrapper(env, context="full")),
)


def test_what_wrappers_show_of_long_replies_is_in_their_space(env_id: str) -> None:
    if env_id == TOY:
        pytest.skip("the toy world has no prompts of its own")
    for wrapped in WRAPPED:
        env = wrapped(make(env_id))
        tag = next(iter(inner(env).reply_grammar.tags))
        assert env.reset(seed=8)[0] in env.observation_space
        for reply in (f"<{tag}>{'x' * 250_000}</{tag}>", "y" * 250_000, f"<{tag}>{'x' * 250_000}</{tag}>"):
            assert env.step(reply)[0] in env.observation_space


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory use from /proc")
def test_memory_stays_flat_over_ten_thousand_episodes(env_id: str) -> None:
    env = make(env_id, max_turns=2)
    episodes = EPISODE_BUDGET.get(env_id, 10_000)
    # Tasks repeat: what is cached of them is cached before the first measurement.
    ids = spread(env, 200)
    measured = []
    for episode in range(episodes):
        _, info = env.reset(seed=episode, options={"task_id": ids[episode % len(ids)]})
        forms = info["admissible_actions"] or ("no such action",)
        for turn in range(2):
            *_, terminated, truncated, info = env.step(forms[(episode + turn) % len(forms)])
            if terminated or truncated:
                break
        if episode >= episodes // 5 and episode % (episodes // 10) == 0:
            gc.collect()
            measured.append(_resident_bytes())
    assert inner(env).max_turns == 2
    assert measured[-1] - measured[0] < 4 * 2**20, f"grew from {measured[0]:,} to {measured[-1]:,} bytes"

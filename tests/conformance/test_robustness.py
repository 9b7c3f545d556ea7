"""Hostile actions and long runs."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.subjects import EPISODE_BUDGET, inner, make, spread

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates included
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


def test_unicode_actions_stay_in_the_space_and_invalid_ones_leave_the_world(env_id: str) -> None:
    env = make(env_id)
    state = {"info": env.reset(seed=8)[1]}

    def mutated(action: str, extra: str, how: int) -> str:
        return (action + extra, extra + action, action.upper(), action.replace(" ", extra), f"[{action}]")[how]

    @settings(max_examples=60, deadline=None, database=None)
    @given(extra=ANY_TEXT, plain=st.booleans(), pick=st.integers(0, 1_000), how=st.integers(0, 4))
    def fuzz(extra: str, plain: bool, pick: int, how: int) -> None:
        before = state["info"]
        forms = (*before["admissible_actions"], *before["action_templates"])
        action = extra if plain else mutated(forms[pick % len(forms)], extra, how)
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation in env.observation_space
        assert isinstance(reward, float)
        if not info["valid_action"]:
            assert info["anchor"] == before["anchor"]
            assert info["score"] == before["score"]
            assert not terminated
        state["info"] = env.reset()[1] if terminated or truncated else info

    fuzz()


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

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.adapters.scripts import ENV_ID, OPTIONS, run_documented

gem = pytest.importorskip("gem", reason="the extra [gem] is not installed (it refuses Python above 3.12.0)")


@pytest.fixture(autouse=True)
def _registered():
    import agent_gym.adapters.gem  # noqa: F401


@pytest.mark.parametrize("threads", [False, True])
def test_twenty_episodes_in_gems_vector_environment_equal_ours(played, threads):
    pins = [{"task_id": script.task_id, "seed": script.seed} for script in played]
    vector = gem.make_vec([ENV_ID] * len(played), vec_kwargs=pins, async_mode=threads, **OPTIONS)
    vector.reset()
    rewards = [[] for _ in played]
    flags = {}
    while len(flags) < len(played):
        going = {i: played[i].replies[len(rewards[i])] for i in range(len(played)) if i not in flags}
        _, gains, terminated, truncated, _ = vector.step(going)
        for place, index in enumerate(going):
            rewards[index].append(float(gains[place]))
            if terminated[place] or truncated[place]:
                flags[index] = (bool(terminated[place]), bool(truncated[place]))
    assert rewards == [script.rewards for script in played]
    assert [flags[i] for i in range(len(played))] == [(s.terminated, s.truncated) for s in played]


def test_gems_wrappers_show_the_conversation_and_the_return(played):
    from gem.wrappers.wrapper_factory import get_wrapper_fns

    script = played[0]
    env = gem.make(ENV_ID, **OPTIONS)
    for wrap in get_wrapper_fns("concat_with_action,episode_tracking"):
        env = wrap(env)
    env.reset()
    env.unwrapped.reset(seed=script.seed, task_id=script.task_id)
    for reply in script.replies:
        shown, *_, info = env.step(reply)
    assert info["cumulative_rewards"] == pytest.approx(script.total)
    assert info["success"] and shown.count("<action>") >= len(script.replies)


def test_seeds_fix_the_episode_and_touch_no_global_generator(played):
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first, again = gem.make(ENV_ID, seed=11, **OPTIONS), gem.make(ENV_ID, **OPTIONS)
    seen = first.reset()
    assert seen[0] == again.reset(seed=11)[0]
    assert first.reset()[0] != seen[0]  # the generator goes on
    _, reward, *_ = again.step(again.sample_random_action())
    assert isinstance(reward, float)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_spawn_copies_the_state_or_starts_anew(played):
    script = played[0]
    env = gem.make(ENV_ID, **OPTIONS)
    env.reset(seed=script.seed, task_id=script.task_id)
    env.step(script.replies[0])
    branch = env.spawn(same_state=True)
    ends = []
    for each in (branch, env):
        for reply in script.replies[1:]:
            *_, terminated, truncated, info = each.step(reply)
        ends.append((terminated, truncated, info["anchor"]))
    assert ends[0] == ends[1] == (script.terminated, script.truncated, script.info["anchor"])
    fresh = env.spawn(max_turns=1)
    fresh.reset(seed=1)
    assert fresh.step("<action>up</action>")[3]
    with pytest.raises(ValueError, match="max_turns"):
        env.spawn(same_state=True, max_turns=1)


def test_the_documented_example_runs():
    run_documented("GEM")

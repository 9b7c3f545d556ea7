from __future__ import annotations

import pytest

from tests.adapters.scripts import ENV_ID, OPTIONS, rows, run_documented

skyrl_gym = pytest.importorskip("skyrl_gym", reason="the extra [skyrl] is not installed")


def play(env, script, prompt):
    messages, _ = env.init(prompt)
    rewards, done, replies = [], False, iter(script.replies)
    while not done:  # as SkyRL's generator does: what `observations` holds is appended to the chat
        out = env.step(next(replies))
        rewards.append(out["reward"])
        messages += [{"role": "assistant", "content": "..."}, *out["observations"]]
        done = out["done"]
    return messages, rewards, out["metadata"]


def test_twenty_episodes_through_the_registry_equal_ours(played):
    import agent_gym.adapters.skyrl as adapter

    data = adapter.dataset_rows(ENV_ID, OPTIONS, count=20)
    assert [row["task_id"] for row in data] == [row["task_id"] for row in rows(played)]
    system = [{"role": "system", "content": "Play well."}]
    open_envs, totals = [], []
    for number, script in enumerate(played):
        row = {"task_id": script.task_id, "seed": script.seed}
        extras = row if number % 2 else {"extra_info": row}
        env = skyrl_gym.make(data[number]["env_class"], env_config=OPTIONS, extras=extras)
        messages, rewards, last = play(env, script, system if number % 2 else data[number]["prompt"])
        assert rewards == script.rewards
        assert (last["success"], last["terminated"], last["truncated"]) == script.ending[:3]
        assert (messages[0]["role"] == "system") == bool(number % 2)
        assert messages[-1]["role"] == "assistant" and messages[number % 2]["content"]
        totals.append(env.get_metrics())
        open_envs.append(env)
    means = type(env).aggregate_metrics(totals)
    assert means["success"] == pytest.approx(sum(script.info["success"] for script in played) / 20)
    assert means["truncated"] == pytest.approx(sum(script.truncated for script in played) / 20)
    for env in open_envs:
        env.close()


def test_importing_twice_registers_once():
    import agent_gym.adapters.skyrl as adapter

    adapter.register_all()
    assert ENV_ID in skyrl_gym.registry


def test_the_documented_example_runs(capsys):
    run_documented("SkyRL-gym")
    assert capsys.readouterr().out.endswith(" True\n")

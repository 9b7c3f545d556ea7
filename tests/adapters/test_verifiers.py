from __future__ import annotations

import asyncio

import pytest

from tests.adapters.scripts import ENV_ID, OPTIONS, run_documented

pytest.importorskip("verifiers", reason="the extra [verifiers] is not installed")

pytestmark = pytest.mark.slow  # the framework takes seconds to import


def evaluate(address, folder, model="scripted", **settings):
    """Run verifiers' own evaluation; returns its episodes."""
    import verifiers.v1 as vf
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    from agent_gym.adapters import verifiers as adapter

    env = adapter.load_environment(ENV_ID, OPTIONS, count=20, **settings).config
    config = EvalConfig(
        env=env,
        model=model,
        client=vf.EvalClientConfig(base_url=address, api_key_var="NO_KEY"),
        max_concurrent=5,
        rich=None,
        push=False,
        output_dir=folder,
    )
    folder.joinpath(config.run.dir).mkdir()
    return asyncio.run(run_eval(config))


def test_verifiers_evaluation_plays_twenty_episodes_with_our_rewards(played, model_address, tmp_path):
    episodes = evaluate(model_address, tmp_path)
    assert len(episodes) == 20 and all(episode.ok for episode in episodes)
    scripts = {script.task_id: script for script in played}
    for episode in episodes:
        (trace,) = episode.traces
        script = scripts[trace.task.data.id]
        assert trace.reward == script.total
        assert trace.metrics["success"] == float(script.info["success"])
        assert trace.metrics["truncated"] == float(script.truncated)
        assert trace.metrics["turns"] == trace.num_turns == len(script.replies)
        assert trace.info["stop_reason"] == script.info["stop_reason"]
    assert len({episode.traces[0].task.data.id for episode in episodes}) == 20


def test_a_model_that_fails_gets_no_reward(played, model_address, tmp_path):
    episodes = evaluate(model_address, tmp_path, model="broken")
    assert not any(episode.ok for episode in episodes)
    assert all(not trace.rewards and trace.errors for episode in episodes for trace in episode.traces)


def test_the_documented_example_runs(model_address, capsys):
    run_documented("verifiers", address=model_address)
    assert len(capsys.readouterr().out.splitlines()) == 4

from __future__ import annotations

import json

import pytest

from tests.adapters.scripts import OPTIONS, rows, run_documented

pytest.importorskip("openenv", reason="the extra [openenv] is not installed")

pytestmark = pytest.mark.slow  # the framework takes seconds to import


def scripted_step(lines):
    """Return a `model_step` that says what the scripts say."""
    from openenv.core.harness import ModelStepResult
    from openenv.core.llm_client import LLMResponse, ToolCall

    def step(messages, tools, sampling):
        assert [tool.name for tool in tools] == ["reply"]
        turn = sum(message["role"] == "assistant" for message in messages)
        text = lines[messages[0]["content"]][turn]
        return ModelStepResult(LLMResponse("", [ToolCall(id=f"call-{turn}", name="reply", args={"text": text})]))

    return step


def test_openenvs_collector_plays_twenty_episodes_with_our_rewards(played, lines, openenv_address, tmp_path):
    from openenv.core.harness import HarnessRunLimits, MCPHarnessAdapter
    from openenv.core.harness.collect import CollectRunner, RolloutSerializer

    from agent_gym.adapters.openenv import AgentGymSessions

    runner = CollectRunner(
        session_factory=AgentGymSessions(openenv_address),
        harness_adapter=MCPHarnessAdapter(),
        serializer=RolloutSerializer(tmp_path),
        tasks=rows(played),
        limits=HarnessRunLimits(max_turns=50),
    )
    result = runner.run(model_step=scripted_step(lines), num_episodes=len(played))
    assert (result.num_collected, result.num_failed) == (20, 0)
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [record["reward"] for record in records] == [script.total for script in played]
    assert [record["verify_metrics"]["success"] for record in records] == [s.info["success"] for s in played]
    assert all(record["done"] for record in records)


def test_connections_at_once_share_nothing(played, openenv_address):
    from agent_gym.adapters.openenv import AgentGymClient, ReplyAction

    clients = [AgentGymClient(openenv_address).sync() for _ in played[:6]]
    rewards = [[] for _ in clients]
    for client, script in zip(clients, played, strict=False):
        result = client.reset(seed=script.seed, task_id=script.task_id)
        assert result.reward is None and not result.done and result.observation.info["task_id"] == script.task_id
    for turn in range(OPTIONS["max_turns"]):
        for index, (client, script) in enumerate(zip(clients, played, strict=False)):
            if turn < len(script.replies):
                said = script.replies[turn]
                result = client.step(ReplyAction(reply=said) if turn % 2 else said)
                rewards[index].append(result.reward)
                assert result.done == (turn + 1 == len(script.replies))
    assert rewards == [script.rewards for script in played[:6]]
    for client, script in zip(clients, played, strict=False):
        state = client.state()
        assert (state.success, state.terminated, state.truncated, state.stop_reason) == script.ending[:4]
        assert state.step_count == len(script.replies)
        client.close()


def test_errors_reach_the_client_with_their_reason(openenv_address):
    from agent_gym.adapters.openenv import AgentGymClient

    with AgentGymClient(openenv_address).sync() as client:
        with pytest.raises(RuntimeError, match="reset"):
            client.step("<action>up</action>")
        with pytest.raises(RuntimeError, match="no task 'nowhere'"):
            client.reset(task_id="nowhere")
        with pytest.raises(RuntimeError, match="taskid"):
            client.reset(taskid="nowhere")
        assert client.reset(seed=1).observation.message  # the connection lives on


@pytest.mark.parametrize("name", ["ALFWorld-Small-v0", "SearchQA-v0", "WebShop-v0"])
def test_info_of_every_environment_crosses_the_wire(name):
    from openenv.core.env_server.serialization import serialize_observation

    from agent_gym.adapters.openenv import AgentGymEnvironment, ReplyAction

    env = AgentGymEnvironment(name)
    env.reset(seed=3)
    oracle = env._episode._env.unwrapped.oracle_action()
    seen = env.step(ReplyAction(reply=env._episode.grammar.wrap(oracle)))
    assert json.loads(json.dumps(serialize_observation(seen)))["observation"]["info"]["valid_action"]


def test_the_documented_example_runs(openenv_address, capsys):
    run_documented("OpenEnv", openenv_address=openenv_address)
    assert "max_turns" in capsys.readouterr().out

from __future__ import annotations

import gymnasium as gym
import pytest

from agent_gym.adapters.trl import environment_factory, task_dataset
from agent_gym.support.arithmetic import added
from agent_gym.support.errors import ConfigError
from agent_gym.wrappers import ReplyWrapper
from tests.adapters.scripts import ENV_ID, run_documented

SHORT = {"split": "valid", "max_turns": 5}


def replayed(env_id, options, task_id, seed, replies):
    """Return the rewards and the last info of replies played through `gym.make`."""
    env = ReplyWrapper(gym.make(env_id, **options))
    _, info = env.reset(seed=seed, options={"task_id": task_id})
    rewards = []
    for reply in replies:
        _, reward, *_, info = env.step(reply)
        rewards.append(reward)
    return rewards, info


def test_tools_are_the_tags_of_the_grammar():
    moves, questions = environment_factory("Sokoban-v0"), environment_factory("SearchQA-v0", {"split": "valid"})
    assert (moves.__name__, questions.__name__) == ("Sokoban-v0", "SearchQA-v0")
    public = [
        sorted(name for name, value in vars(each).items() if callable(value) and not name.startswith("_"))
        for each in (moves, questions)
    ]
    assert public == [["action"], ["answer", "search"]]
    env = questions()
    assert "<search>" not in env.reset(seed=3)  # TRL shows the tools itself
    env.search("Who?")
    assert "The episode is over" in env.answer("nobody")
    assert env.episode.replies == ["<search>Who?</search>", "<answer>nobody</answer>"]


def test_calls_after_the_end_change_nothing_and_a_reset_starts_afresh():
    env = environment_factory("Sokoban-v0", {"max_turns": 1})()
    assert env.get_reward() == 0.0
    first = env.reset(task_id=None, seed=4, prompt="a column that is not ours")
    assert env.action("Up.").endswith("The episode is over: max_turns.")
    total = env.get_reward()
    assert env.action("up") == "The episode is over: max_turns."
    assert env.get_reward() == total and env.episode.replies == ["<action>Up.</action>"]
    assert env.reset(seed=4) == first and env.get_reward() == 0.0


def test_faults_show_when_the_factory_is_made():
    with pytest.raises(ConfigError, match="max_turns"):
        environment_factory("Sokoban-v0", {"maxturns": 3})


def test_rows_pin_tasks_and_seeds():
    pytest.importorskip("datasets", reason="the extra [trl] is not installed")
    data = task_dataset(ENV_ID, SHORT, count=3, system="Play.")
    assert data.column_names == ["prompt", "task_id", "seed"]
    assert [message["role"] for message in data[0]["prompt"]] == ["system", "user"]
    assert data["task_id"] == list(gym.make(ENV_ID, **SHORT).unwrapped.tasks.ids[:3])


@pytest.mark.slow
def test_grpo_trainer_plays_twenty_episodes_with_our_rewards(tmp_path, tiny_model):
    from trl import GRPOConfig, GRPOTrainer

    seen = []

    def record(environments, task_id, seed, **_):
        for env, *row in zip(environments, task_id, seed, strict=True):
            seen.append((*row, list(env.episode.replies), env.get_reward(), dict(env.episode.info)))
        return [0.0] * len(environments)

    model, tokenizer, settings = tiny_model
    trainer = GRPOTrainer(
        model,
        reward_funcs=record,
        train_dataset=task_dataset(ENV_ID, SHORT, count=5),
        environment_factory=environment_factory(ENV_ID, SHORT),
        processing_class=tokenizer,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=20,
            num_generations=4,
            max_steps=1,
            max_completion_length=2048,
            max_tool_calling_iterations=8,
            learning_rate=1e-3,
            **settings,
        ),
    )
    trainer.train()
    assert len(seen) == 20
    assert len({task_id for task_id, *_ in seen}) == 5
    for task_id, seed, replies, reward, last in seen:
        rewards, info = replayed(ENV_ID, SHORT, task_id, seed, replies)
        assert reward == added(rewards)
        if replies:
            assert (last["anchor"], last["stop_reason"]) == (info["anchor"], info["stop_reason"])
    assert sum(bool(last["stop_reason"]) for *_, last in seen) >= 5
    assert len({tuple(replies) for _, _, replies, _, _ in seen}) > 10
    logged = trainer.state.log_history[0]["rewards/Sokoban-v0/mean"]
    assert logged == pytest.approx(sum(reward for _, _, _, reward, _ in seen) / 20, abs=1e-6)


@pytest.mark.slow
def test_the_documented_example_runs(tmp_path, tiny_model):
    model, tokenizer, settings = tiny_model
    run_documented("TRL", model=model, tokenizer=tokenizer, folder=str(tmp_path), settings=settings)

"""The contract of every environment: spaces, info, options, limits, invalid actions."""

from __future__ import annotations

import pickle
import types
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit

from agent_gym.core.info import StepInfo, StopReason
from agent_gym.core.make import make_env
from agent_gym.core.prompts import PromptBuilder, Segment, template_for
from agent_gym.core.replies import RejectedReply
from agent_gym.core.spaces import UnicodeText
from agent_gym.core.tasks import save_tasks
from agent_gym.support.errors import ConfigError, InvalidActionError, UnknownTaskError
from tests.conformance.subjects import TOY, inner, make, play_oracle, spread

REJECTED = RejectedReply("hello", "Write an action.")
UNKNOWN = "\x00 no such action 你"
TYPES = {
    name: tuple if isinstance(hint, types.GenericAlias) else hint for name, hint in get_type_hints(StepInfo).items()
}


def check_info(env: Any, info: dict[str, Any]) -> None:
    """Check that info holds every key of `StepInfo` with exactly its type, and own keys under the env's name."""
    for key, kind in TYPES.items():
        assert type(info[key]) is kind, f"{key} is a {type(info[key]).__name__}, expected {kind.__name__}"
        if kind is tuple:
            assert all(type(item) is str for item in info[key])
    others = set(info) - set(TYPES)
    prefix = f"{inner(env).name}/"
    assert all(key.startswith(prefix) for key in others), f"keys {others} lack the prefix {prefix!r}"
    assert 0.0 <= info["score"] <= 1.0
    assert info["task_id"]
    assert info["goal"]
    assert info["anchor"]
    assert info["stop_reason"] in list(StopReason)
    if info["stop_reason"]:
        assert info["admissible_actions"] == info["action_templates"] == ()


# Sockets that other tests left to the collector are not the checker's warnings.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("error")
def test_gymnasiums_checker_passes_without_a_warning(env_id: str) -> None:
    check_env(make(env_id).unwrapped)


def test_info_holds_every_key_with_its_type_from_reset_to_the_end(env_id: str) -> None:
    env = make(env_id)
    observation, info = env.reset(seed=1)
    check_info(env, info)
    assert (info["turn"], info["valid_action"], info["success"], info["stop_reason"]) == (0, True, False, "")
    assert info["admissible_actions"] or info["action_templates"]
    assert observation in env.observation_space
    for turn, action in enumerate((REJECTED, UNKNOWN), 1):
        observation, reward, terminated, truncated, info = env.step(action)
        check_info(env, info)
        assert (info["turn"], info["valid_action"], type(reward)) == (turn, False, float)
        assert (type(terminated), type(truncated)) == (bool, bool)
    env.reset(seed=1)
    for action, (_, reward, terminated, truncated, info) in play_oracle(env):
        check_info(env, info)
        assert info["valid_action"], action
        assert type(reward) is float
        assert bool(info["stop_reason"]) == (terminated or truncated)


def test_spaces_hold_any_text(env_id: str) -> None:
    env = make(env_id)
    assert isinstance(env.observation_space, UnicodeText)
    assert isinstance(env.action_space, UnicodeText)


class TestTurnLimit:
    def test_the_limit_truncates_exactly_on_its_turn(self, env_id: str) -> None:
        env = make(env_id, max_turns=3)
        env.reset(seed=0)
        results = [env.step(REJECTED) for _ in range(3)]
        assert [result[2:4] for result in results] == [(False, False), (False, False), (False, True)]
        assert results[-1][4]["stop_reason"] == StopReason.MAX_TURNS

    def test_a_step_after_the_end_needs_a_reset(self, env_id: str) -> None:
        env = make(env_id, max_turns=1)
        with pytest.raises(ResetNeeded):
            env.step(UNKNOWN)
        env.reset(seed=0)
        env.step(REJECTED)
        with pytest.raises(ResetNeeded):
            env.step(UNKNOWN)
        with pytest.raises(ResetNeeded):
            inner(env).oracle_action()
        env.reset()
        assert env.step(REJECTED)[4]["turn"] == 1

    def test_max_episode_steps_becomes_the_turn_limit(self, env_id: str) -> None:
        if env_id == TOY:
            pytest.skip("the toy world does not map max_episode_steps")
        env = make(env_id, max_episode_steps=2)
        assert inner(env).max_turns == 2
        layer = env
        while layer is not layer.unwrapped:
            assert not isinstance(layer, TimeLimit)
            layer = layer.env  # type: ignore[attr-defined]
        env.reset(seed=0)
        assert [env.step(REJECTED)[3] for _ in range(2)] == [False, True]

    def test_a_win_on_the_last_turn_is_terminated_one_turn_less_is_truncated(self, env_id: str) -> None:
        env = make(env_id)
        for task_id in spread(env, 3):
            start: dict[str, Any] = {"seed": 4, "options": {"task_id": task_id}}
            inner(env).max_turns = 10_000
            env.reset(**start)
            actions = [action for action, _ in play_oracle(env)]
            inner(env).max_turns = len(actions)
            env.reset(**start)
            results = [env.step(action) for action in actions]
            assert results[-1][2:4] == (True, False)
            assert results[-1][4]["stop_reason"] == StopReason.SUCCESS
            if len(actions) > 1:
                inner(env).max_turns = len(actions) - 1
                env.reset(**start)
                results = [env.step(action) for action in actions[:-1]]
                assert results[-1][2:4] == (False, True)
                assert not results[-1][4]["success"]


class TestInvalidActions:
    @pytest.mark.parametrize("action", [REJECTED, UNKNOWN, "", "a" * 100_000])
    def test_continue_counts_the_turn_and_leaves_the_world(self, env_id: str, action: str) -> None:
        env = make(env_id)
        _, before = env.reset(seed=2)
        observation, _, terminated, truncated, after = env.step(action)
        assert (terminated, truncated, after["valid_action"], after["turn"]) == (False, False, False, 1)
        assert observation in env.observation_space
        assert observation
        for key in ("anchor", "goal", "admissible_actions", "action_templates", "score"):
            assert after[key] == before[key]

    @pytest.mark.parametrize(
        ("action", "reason"), [(REJECTED, StopReason.PARSE_ERROR), (UNKNOWN, StopReason.INVALID_ACTION)]
    )
    def test_terminate_ends_the_episode_with_its_reason(self, env_id: str, action: str, reason: StopReason) -> None:
        env = make(env_id, invalid_action="terminate")
        env.reset(seed=2)
        _, _, terminated, truncated, info = env.step(action)
        assert (terminated, truncated, info["stop_reason"], info["success"]) == (True, False, reason, False)

    @pytest.mark.parametrize("action", [REJECTED, UNKNOWN])
    def test_raise_does_not_count_the_turn(self, env_id: str, action: str) -> None:
        env = make(env_id, invalid_action="raise")
        env.reset(seed=2)
        with pytest.raises(InvalidActionError, match="is not accepted"):
            env.step(action)
        assert env.step(inner(env).oracle_action())[4]["turn"] == 1


class TestOptions:
    @pytest.mark.filterwarnings("ignore:.*render_mode")
    def test_what_does_not_exist_is_named_with_what_does(self, env_id: str) -> None:
        split = inner(make(env_id)).tasks.split
        with pytest.raises(ConfigError, match=rf"(?s)(?=.*{split})(?=.*'no such split')"):
            make(env_id, split="no such split")
        with pytest.raises(ConfigError, match=r"'ansi'.*got 'loud'"):
            make(env_id, render_mode="loud")
        with pytest.raises(ConfigError, match=r"'continue'.*got 'scream'"):
            make(env_id, invalid_action="scream")
        with pytest.raises(ConfigError, match="max_turns must be"):
            make(env_id, max_turns=0)
        with pytest.raises(TypeError, match="max_turn"):
            make(env_id, max_turn=3)
        if env_id != TOY:
            with pytest.raises(ConfigError, match=r"no option 'max_turn'.*'max_turns'"):
                make_env(env_id, {"max_turn": 3})

    def test_an_unknown_task_names_near_ones(self, env_id: str) -> None:
        env = make(env_id)
        known = spread(env, 1)[0]
        with pytest.raises(UnknownTaskError, match=known.partition("/")[0]):
            env.reset(options={"task_id": known + "x"})
        with pytest.raises(ConfigError, match=r"unknown reset option 'taks_id'.*'task_id'"):
            env.reset(options={"taks_id": known})
        for odd in (None, 3, ["x"]):
            with pytest.raises(ConfigError, match="must be the id of a task"):
                env.reset(options={"task_id": odd})
        with pytest.raises(ConfigError, match="must be a dict, got 'x'"):
            env.reset(options="x")

    def test_a_reset_that_failed_leaves_no_episode_and_can_be_made_again(self, env_id: str) -> None:
        env = make(env_id)
        env.reset(seed=0)
        action = inner(env).oracle_action()
        with pytest.raises(UnknownTaskError):
            env.reset(options={"task_id": "no such task"})
        with pytest.raises(ResetNeeded):
            env.step(action)
        env.reset(seed=0)
        assert env.step(inner(env).oracle_action())[4]["turn"] == 1

    def test_a_pinned_task_is_played(self, env_id: str) -> None:
        env = make(env_id)
        for task_id in spread(env, 4):
            assert env.reset(options={"task_id": task_id})[1]["task_id"] == task_id

    def test_a_record_that_is_in_no_list_is_played(self, env_id: str) -> None:
        env = make(env_id)
        listed = env.reset(seed=0, options={"task_id": spread(env, 2)[-1]})
        record = inner(env).task.record
        shown = [env.reset(seed=0, options={"task": record}) for _ in range(2)]
        assert shown[0] == shown[1]
        assert shown[0][1]["task_id"].startswith("custom/")
        assert shown[0][0] == listed[0]
        assert shown[0][1]["goal"] == listed[1]["goal"]
        assert play_oracle(env)[-1][1][4]["success"]

    def test_tasks_come_from_a_file_and_exclude_a_split(self, env_id: str, tmp_path: Path) -> None:
        source = make(env_id)
        tasks = inner(source).tasks.subset(spread(source, 3))
        path = tmp_path / "tasks.jsonl"
        save_tasks(path, tasks)
        for given in (path, str(path), tasks):
            env = make(env_id, tasks=given)
            assert list(inner(env).tasks.ids) == list(tasks.ids)
            for task in tasks:
                start: dict[str, Any] = {"seed": 0, "options": {"task_id": task.id}}
                assert env.reset(**start) == source.reset(**start)
        with pytest.raises(ConfigError, match="cannot be combined with split="):
            make(env_id, tasks=path, split=tasks.split)


class TestCopies:
    def test_a_fresh_environment_pickles(self, env_id: str) -> None:
        env = make(env_id)
        for original in (env, inner(env)):
            twin = pickle.loads(pickle.dumps(original))
            assert twin.reset(seed=6) == original.reset(seed=6)

    def test_the_spec_makes_the_same_environment(self, env_id: str) -> None:
        env = make(env_id, max_turns=5)
        assert env.spec is not None
        twin = make(env.spec)  # type: ignore[arg-type]
        assert inner(twin).max_turns == 5
        assert twin.reset(seed=6) == env.reset(seed=6)


def test_every_prompt_template_renders(env_id: str) -> None:
    if env_id == TOY:
        pytest.skip("the toy world keeps no prompt files")
    env = make(env_id)
    _, first = env.reset(seed=0)
    _, _, _, _, second = env.step(inner(env).oracle_action())
    names = sorted(path.stem for path in inner(env).prompt_folder.glob("*.j2"))
    assert "prompt" in names
    for name in names:
        for thoughts in (False, True):
            builder = PromptBuilder(template_for(env, name), thoughts=thoughts)
            for info in (first, second):
                prompt = builder.prompt(info)
                assert prompt.text()
                assert prompt.masked(list(Segment)).text() == ""
    text = PromptBuilder(template_for(env)).prompt(first).text()
    tag = next(iter(inner(env).reply_grammar.tags))
    assert f"<{tag}>" in text, "the prompt shows how to reply"

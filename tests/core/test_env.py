"""The base environment, played in the toy world."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agent_gym.core import (
    ConfigError,
    InvalidActionError,
    ListTaskSet,
    Outcome,
    RejectedReply,
    StopReason,
    Task,
    save_tasks,
)
from tests.toy import DoorEnv

REJECTED = RejectedReply("hello", "Write an action.")


def door(target: int = 3, **options: Any) -> DoorEnv:
    """Return a door whose dial shows 1, so that it opens after |target - 1| moves."""
    env = DoorEnv([Task("t/1", "one", "all", {"target": target})], **options)
    env.reset(seed=0)
    env._dial = 1
    return env


class TestTurnLimit:
    def test_a_win_on_the_last_turn_is_terminated_and_not_truncated(self) -> None:
        env = door(max_turns=3)
        env.step("up")
        env.step("up")
        _, reward, terminated, truncated, info = env.step("open")
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        assert (info["stop_reason"], info["turn"]) == ("success", 3)

    def test_the_limit_truncates_exactly_on_its_turn(self) -> None:
        env = door(max_turns=3)
        flags = [env.step("say a")[2:4] for _ in range(3)]
        assert flags == [(False, False), (False, False), (False, True)]

    def test_a_loss_on_the_last_turn_is_a_failure(self) -> None:
        env = door(max_turns=1)
        _, _, terminated, truncated, info = env.step("open")
        assert (terminated, truncated, info["stop_reason"], info["success"]) == (True, False, "failure", False)

    def test_a_rejected_reply_on_the_last_turn_is_truncated(self) -> None:
        _, _, terminated, truncated, info = door(max_turns=1).step(REJECTED)
        assert (terminated, truncated, info["stop_reason"]) == (False, True, "max_turns")

    @pytest.mark.parametrize("bad", [0, -1, 1.5, "3", True])
    def test_a_limit_that_is_no_positive_integer_is_named(self, bad: Any) -> None:
        with pytest.raises(ConfigError, match="max_turns must be an integer of at least 1"):
            DoorEnv(max_turns=bad)


class TestInvalidActions:
    @pytest.mark.parametrize("action", ["sing", "", "UP", "up ", "a" * 5_000, REJECTED])
    def test_continue_counts_the_turn_and_leaves_the_world(self, action: str) -> None:
        env = door()
        before = env.oracle_action(), env._dial
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (-0.1, False, False)
        assert (info["valid_action"], info["turn"], info["stop_reason"]) == (False, 1, "")
        assert (env.oracle_action(), env._dial) == before
        assert observation

    def test_a_reply_without_action_shows_its_reason(self) -> None:
        assert door().step(REJECTED)[0].startswith("Write an action.")

    @pytest.mark.parametrize(
        ("action", "reason"), [("sing", StopReason.INVALID_ACTION), (REJECTED, StopReason.PARSE_ERROR)]
    )
    def test_terminate_ends_the_episode_with_its_reason(self, action: str, reason: StopReason) -> None:
        env = door(invalid_action="terminate")
        _, _, terminated, truncated, info = env.step(action)
        assert (terminated, truncated, info["stop_reason"], info["success"]) == (True, False, reason, False)
        with pytest.raises(ResetNeeded):
            env.step("up")

    def test_raise_does_not_count_the_turn_and_names_what_is_accepted(self) -> None:
        env = door(invalid_action="raise")
        with pytest.raises(InvalidActionError, match=r"'uq' is not accepted: Nothing happens.*'up'"):
            env.step("uq")
        with pytest.raises(InvalidActionError, match=r"'sing'.*Admissible now: \['up', 'down', 'open'\]"):
            env.step("sing")
        assert env.step("up")[4]["turn"] == 1

    def test_raise_needs_no_text_to_explain_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        env = door(invalid_action="raise")
        monkeypatch.setattr(env, "_act", lambda action: Outcome("", valid=False))
        with pytest.raises(InvalidActionError, match="sing"):
            env.step("sing")

    def test_an_action_that_is_no_text_is_a_fault_of_the_caller(self) -> None:
        with pytest.raises(TypeError, match="got int"):
            door().step(3)  # type: ignore[arg-type]


class TestReset:
    def test_the_end_needs_a_reset_and_says_how_it_ended(self) -> None:
        env = door(max_turns=1)
        env.step("say a")
        with pytest.raises(ResetNeeded, match="max_turns"):
            env.step("say a")
        with pytest.raises(ResetNeeded):
            env.oracle_action()
        env.reset()
        assert env.step("say a")[4]["turn"] == 1

    def test_nothing_works_before_the_first_reset(self) -> None:
        for use in (lambda: DoorEnv().step("up"), lambda: DoorEnv().task, lambda: DoorEnv().oracle_action()):
            with pytest.raises(ResetNeeded):
                use()

    def test_a_seed_fixes_task_and_world_and_none_goes_on(self) -> None:
        env = DoorEnv()
        first = [env.reset(seed=5)] + [env.reset() for _ in range(20)]
        again = [env.reset(seed=5)] + [env.reset() for _ in range(20)]
        assert first == again
        assert len({info["task_id"] for _, info in first}) > 10

    def test_ten_derived_seeds_give_ten_tasks(self) -> None:
        env = DoorEnv()
        assert len({env.reset(seed=seed)[1]["task_id"] for seed in range(200)}) > 100

    def test_unknown_options_are_named(self) -> None:
        with pytest.raises(ConfigError, match=r"'task_ids'.*Did you mean 'task_id'"):
            DoorEnv().reset(options={"task_ids": "door/1"})
        with pytest.raises(ConfigError, match="not both"):
            DoorEnv().reset(options={"task_id": "door/1", "task": {"target": 1}})

    def test_equal_records_get_equal_custom_ids(self) -> None:
        env = DoorEnv()
        one, two, other = (env.reset(options={"task": {"target": n}})[1]["task_id"] for n in (4, 4, 5))
        assert one == two != other


class TestTaskArgument:
    def test_a_list_a_set_and_a_file_play_the_same_tasks(self, tmp_path: Any) -> None:
        tasks = [Task(f"t/{n}", "t", "mine", {"target": n}) for n in range(3)]
        save_tasks(tmp_path / "mine.jsonl", tasks)
        given = [tasks, ListTaskSet(tasks), tmp_path / "mine.jsonl", str(tmp_path / "mine.jsonl")]
        assert all(list(DoorEnv(some).tasks) == tasks for some in given)

    def test_tasks_exclude_a_split(self) -> None:
        with pytest.raises(ConfigError, match="cannot be combined with split="):
            DoorEnv([Task("a", "a", "a", {"target": 1})], split="train")

    def test_other_things_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="got int"):
            DoorEnv(3)


@pytest.mark.parametrize(("option", "expected"), [("render_mode", "ansi"), ("invalid_action", "terminate")])
def test_an_option_that_does_not_exist_lists_those_that_do(option: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"{option} must be .*{expected}.*got 'loud'"):
        DoorEnv(**{option: "loud"})


def test_the_task_set_is_not_copied_with_the_environment() -> None:
    env = door()
    twin = copy.deepcopy(env)
    assert twin.tasks is env.tasks
    env.step("up")
    assert (env._dial, twin._dial) == (2, 1)


@pytest.mark.parametrize(
    ("method", "kind"), [("_begin", "a str"), ("_act", "an Outcome"), ("_situation", "a Situation")]
)
def test_a_method_that_returns_something_else_is_named_with_its_place(
    method: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = door()
    monkeypatch.setattr(DoorEnv, method, lambda self, *given: 5)
    with pytest.raises(TypeError, match=rf"DoorEnv.{method} must return {kind}, got int \(.*test_env.py:\d+\)"):
        env.reset() if method == "_begin" else env.step("up")

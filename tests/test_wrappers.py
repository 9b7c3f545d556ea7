"""The wrappers between a model and an environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from agent_gym.core import ConfigError, RejectedReply
from agent_gym.wrappers import MessagesWrapper, PromptWrapper, ReplyWrapper
from tests.toy import DoorEnv, write_prompts

START: dict[str, Any] = {"seed": 0, "options": {"task_id": "door/3"}}
WRAPPERS: list[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = [
    ReplyWrapper,
    PromptWrapper,
    MessagesWrapper,
    lambda env: MessagesWrapper(ReplyWrapper(env), context="full"),
    lambda env: ReplyWrapper(PromptWrapper(env)),
]


@pytest.fixture(autouse=True)
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoorEnv, "prompt_folder", write_prompts(tmp_path))


def door() -> gym.Env[str, str]:
    return gym.make("toy/Door-v0")


class TestReplies:
    def test_a_reply_is_parsed_and_its_action_taken(self) -> None:
        env = ReplyWrapper(door())
        _, info = env.reset(**START)
        assert (info["thought"], info["valid_format"], info["reason"], info["action"]) == ("", True, "", None)
        info = env.step("<think>hm</think> so <action>Up.</action>")[4]
        assert (info["thought"], info["valid_format"], info["reason"], info["action"]) == ("hm", True, "", "up")
        assert info["valid_action"]

    def test_a_reply_without_action_counts_and_says_what_is_wrong(self) -> None:
        env = ReplyWrapper(door())
        env.reset(**START)
        observation, _, terminated, truncated, info = env.step("hello")
        assert (terminated, truncated, info["turn"], info["valid_action"]) == (False, False, 1, False)
        assert (info["valid_format"], info["action"]) == (False, None)
        assert info["reason"] in observation

    def test_strict_mode_takes_the_action_as_it_is_written(self) -> None:
        env = ReplyWrapper(door(), mode="strict")
        env.reset(**START)
        assert not env.step("so <action>up</action>")[4]["valid_format"]
        info = env.step("<action>Up</action>")[4]
        assert (info["valid_format"], info["action"], info["valid_action"]) == (True, "Up", False)

    def test_an_unknown_mode_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"'strict', 'lenient'.*'loose'"):
            ReplyWrapper(door(), mode="loose")


class TestPrompts:
    def test_the_prompt_shows_goal_history_and_observation(self) -> None:
        env = PromptWrapper(ReplyWrapper(door()), history_length=2)
        text, info = env.reset(**START)
        assert info["goal"] in text
        first = info["prompt_observation"]
        for reply in ("<action>say a</action>", "hello", "<action>say b</action>"):
            text, *_, info = env.step(reply)
        assert f"2. saw {first[:-1]}. You said a. did (no valid action)" in text
        assert "3. saw" in text
        assert "1. saw" not in text
        assert info["prompt_observation"] in text

    @pytest.mark.parametrize(
        "wrap", [lambda e: PromptWrapper(ReplyWrapper(e)), lambda e: ReplyWrapper(PromptWrapper(e))]
    )
    def test_the_order_of_the_wrappers_does_not_matter(self, wrap: Callable[[Any], gym.Env[str, str]]) -> None:
        env, plain = wrap(door()), PromptWrapper(door())
        seen = [env.reset(**START)[0], env.step("hello")[0], env.step("<action>up</action>")[0]]
        reason = "The reply holds no action; write it as <action>...</action>."
        assert seen == [plain.reset(**START)[0], plain.step(RejectedReply("hello", reason))[0], plain.step("up")[0]]

    def test_a_template_is_chosen_by_name_or_path(self, tmp_path: Path) -> None:
        named, by_path = (PromptWrapper(door(), template=t) for t in ("compact", tmp_path / "compact.j2"))
        assert named.reset(**START)[0] == by_path.reset(**START)[0] == "0|" + door().reset(**START)[0]

    def test_a_reset_forgets_the_history(self) -> None:
        env = PromptWrapper(door())
        first = env.reset(**START)[0]
        env.step("up")
        assert env.reset(**START)[0] == first


class TestMessages:
    def test_window_context_is_one_message_with_the_prompt(self) -> None:
        messages, prompts = MessagesWrapper(door()), PromptWrapper(door())
        pairs = [(messages.reset(**START)[0], prompts.reset(**START)[0])]
        pairs += [(messages.step(a)[0], prompts.step(a)[0]) for a in ("up", "say x")]
        assert all(shown == ({"role": "user", "content": text},) for shown, text in pairs)

    def test_full_context_only_grows(self) -> None:
        env = MessagesWrapper(ReplyWrapper(door()), context="full")
        seen = [env.reset(**START)[0]]
        replies = ["<action>up</action>", "hello"]
        seen += [env.step(reply)[0] for reply in replies]
        for shorter, longer in pairwise(seen):
            assert longer[: len(shorter)] == shorter
        assert [message["role"] for message in seen[-1]] == ["user", "assistant", "user", "assistant", "user"]
        assert [message["content"] for message in seen[-1][1::2]] == replies
        assert "Goal:" in seen[-1][0]["content"]
        assert "Goal:" not in seen[-1][-1]["content"]

    def test_changing_what_was_shown_changes_nothing_later(self) -> None:
        env = MessagesWrapper(door(), context="full")
        shown = env.reset(**START)[0]
        kept = copy.deepcopy(shown)
        shown[0]["content"] = "gone"
        assert env.step("up")[0][0] == kept[0]

    def test_an_unknown_context_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"'window', 'full'.*'long'"):
            MessagesWrapper(door(), context="long")


class TestGymnasiumConventions:
    @pytest.mark.parametrize("wrap", WRAPPERS)
    @pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
    # Sockets that other tests left to the collector are not the checker's warnings.
    @pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.filterwarnings("error")
    def test_the_checker_passes_without_a_warning(self, wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
        check_env(wrap(DoorEnv()), skip_render_check=True)

    @pytest.mark.parametrize("wrap", WRAPPERS)
    def test_the_spec_makes_the_same_again(self, wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
        env = wrap(door())
        assert env.spec is not None
        again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        assert str(again) == str(env)
        assert again.reset(**START) == env.reset(**START)
        assert again.observation_space == env.observation_space

    @pytest.mark.parametrize("wrap", WRAPPERS)
    def test_a_copy_in_the_middle_goes_its_own_way(self, wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
        env = wrap(door())
        env.reset(**START)
        env.step("<action>up</action>")
        twin, other = copy.deepcopy(env), copy.deepcopy(env)
        other.step("<action>down</action>")
        assert twin.step("<action>say é</action>") == env.step("<action>say é</action>")

    @pytest.mark.parametrize("wrap", WRAPPERS)
    def test_nothing_of_the_inner_environment_is_copied(self, wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
        env = wrap(door())
        env.reset(**START)
        inner = env.unwrapped
        inner.max_turns = 2  # type: ignore[attr-defined]
        assert env.get_wrapper_attr("max_turns") == 2
        env.step("<action>up</action>")
        assert env.step("<action>up</action>")[3], "the new limit counts"

    def test_another_kind_of_environment_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="needs a TextEnv inside, got CartPoleEnv"):
            ReplyWrapper(gym.make("CartPole-v1"))

    @pytest.mark.parametrize("wrap", WRAPPERS)
    def test_vector_environments_carry_wrapped_observations(self, wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
        vector = gym.vector.SyncVectorEnv([lambda: wrap(door())] * 2)
        alone = wrap(door())
        assert list(vector.reset(seed=[3, 3])[0]) == [alone.reset(seed=3)[0]] * 2
        shown = vector.step(("<action>up</action>",) * 2)[0]
        assert list(shown) == [alone.step("<action>up</action>")[0]] * 2

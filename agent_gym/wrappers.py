"""Gymnasium wrappers between a language model and an environment.

`ReplyWrapper` lets `step` take a model's whole reply. `PromptWrapper` turns observations into prompt text and
`MessagesWrapper` into chat messages. They combine in any order; the usual one is
`MessagesWrapper(ReplyWrapper(gym.make(id)))`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import gymnasium as gym
from gymnasium.spaces import Dict, Sequence
from gymnasium.utils import RecordConstructorArgs

from agent_gym.core.env import TextEnv
from agent_gym.core.prompts import NO_ACTION, ContextMode, Exchange, Message, PromptBuilder, template_for
from agent_gym.core.replies import ParsedReply, RejectedReply, ReplyMode, parse_reply
from agent_gym.core.spaces import UnicodeText
from agent_gym.support.checks import check_choice
from agent_gym.support.errors import ConfigError

__all__ = ["MessagesWrapper", "PromptWrapper", "ReplyWrapper"]

MAX_REPLY = 262_144
"""Characters of a reply, unless a reply wrapper is told otherwise."""

Result: TypeAlias = tuple[Any, float, bool, bool, dict[str, Any]]
Messages: TypeAlias = tuple[Message, ...]


def _text_env(env: gym.Env[Any, Any], wrapper: str) -> TextEnv:
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise ConfigError(f"{wrapper} needs a TextEnv inside, got {type(inner).__name__}")
    return inner


class ReplyWrapper(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Takes a model's reply instead of an action.

    The reply is parsed by the environment's own grammar. A reply without an action reaches the environment as a
    `RejectedReply`: the turn counts and the observation says what was wrong. `info` gains, after reset and step,
    `thought` (str), `valid_format` (bool), `reason` (str: what was wrong with the format) and `action` (str, or
    None when the reply held none and after reset).

    Args:
        env: The environment.
        mode: "lenient" (the last complete action tag counts, known spellings are mapped) or "strict".
        max_reply_length: Length of the action space in characters.

    Raises:
        ConfigError: The mode is unknown, or there is no `TextEnv` inside.
    """

    def __init__(
        self, env: gym.Env[str, str], mode: str = ReplyMode.LENIENT, max_reply_length: int = MAX_REPLY
    ) -> None:
        RecordConstructorArgs.__init__(self, mode=str(mode), max_reply_length=max_reply_length)
        gym.Wrapper.__init__(self, env)
        _text_env(env, "ReplyWrapper")
        self.mode = check_choice("mode", ReplyMode, mode, quoted=True)
        self.action_space = UnicodeText(max_reply_length)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TextEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, **_format_info(ParsedReply("", None, True, ""))}

    def step(self, action: str) -> Result:
        """Take one turn with a model's reply; see `TextEnv.step`."""
        if not isinstance(action, str):
            raise TypeError(f"a reply is a str, got {type(action).__name__}")
        parsed = self.parse(action)
        told = parsed.action if parsed.action is not None else RejectedReply(action, parsed.reason)
        observation, reward, terminated, truncated, info = self.env.step(told)
        return observation, float(reward), terminated, truncated, {**info, **_format_info(parsed)}

    def parse(self, reply: str) -> ParsedReply:
        """Parse a reply as `step` does."""
        inner = _text_env(self.env, "ReplyWrapper")
        return parse_reply(reply, inner.reply_grammar, self.mode, inner.canonical_action)


class PromptWrapper(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Shows a rendered prompt (window context: goal, last exchanges, current observation) as the observation.

    Args:
        env: The environment, or a wrapper around it.
        template: Name of one of the environment's templates, or a path to a Jinja file.
        history_length: Exchanges shown.
        thoughts: Whether the prompt asks for a thought.
        max_length: Length of the observation space in characters; room for the history when None.

    Raises:
        ConfigError: The template is missing or faulty, or there is no `TextEnv` inside.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        template: str | Path = "prompt",
        history_length: int = 2,
        thoughts: bool = False,
        max_length: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            template=str(template),
            history_length=history_length,
            thoughts=thoughts,
            max_length=max_length,
        )
        gym.Wrapper.__init__(self, env)
        inner = _text_env(env, "PromptWrapper")
        self.builder = PromptBuilder(template_for(inner, template), history_length, thoughts)
        self.history: list[Exchange] = []
        self._seen = ""
        self.observation_space = UnicodeText(max_length or _room(env, history_length))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TextEnv.reset`."""
        _, info = self.env.reset(seed=seed, options=options)
        self.history = []
        return self._show(info), info

    def step(self, action: str) -> Result:
        """Take one turn; see `TextEnv.step`."""
        _, reward, terminated, truncated, info = self.env.step(action)
        self.history.append(Exchange(self._seen, _done(action, info)))
        return self._show(info), float(reward), terminated, truncated, info

    def _show(self, info: dict[str, Any]) -> str:
        self._seen = info["prompt_observation"]
        return self.builder.prompt(info, self.history).text()


class MessagesWrapper(gym.Wrapper[Any, str, str, str], RecordConstructorArgs):
    """Shows chat messages as the observation: a tuple of `{"role": ..., "content": ...}` dicts.

    In window context it is one user message, the prompt of `PromptWrapper`. In full context it is the whole
    conversation: the first prompt, then what was given to `step` as the assistant's message and the new
    observation as the user's, turn by turn.

    Args:
        env: The environment, or a wrapper around it.
        context: "window" or "full".
        template: Name of one of the environment's templates, or a path to a Jinja file.
        history_length: Exchanges shown in window context.
        thoughts: Whether the prompt asks for a thought.
        max_length: Length of one message in characters in the observation space; room for the history when None.

    Raises:
        ConfigError: The context is unknown, the template is missing or faulty, or no `TextEnv` is inside.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        context: str = ContextMode.WINDOW,
        *,
        template: str | Path = "prompt",
        history_length: int = 2,
        thoughts: bool = False,
        max_length: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            context=str(context),
            template=str(template),
            history_length=history_length,
            thoughts=thoughts,
            max_length=max_length,
        )
        gym.Wrapper.__init__(self, env)
        inner = _text_env(env, "MessagesWrapper")
        self.context = check_choice("context", ContextMode, context, quoted=True)
        self.builder = PromptBuilder(template_for(inner, template), history_length, thoughts)
        self.history: list[Exchange] = []
        self._seen = ""
        self._conversation: Messages = ()
        length = max_length or _room(env, history_length)
        self.observation_space = Sequence(Dict({"role": UnicodeText(16), "content": UnicodeText(length)}))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start an episode; see `TextEnv.reset`."""
        _, info = self.env.reset(seed=seed, options=options)
        self.history = []
        self._seen = info["prompt_observation"]
        self._conversation = tuple(self.builder.opening(info))
        return self._show(info), info

    def step(self, action: str) -> Result:
        """Take one turn; see `TextEnv.step`."""
        _, reward, terminated, truncated, info = self.env.step(action)
        self.history.append(Exchange(self._seen, _done(action, info)))
        self._seen = info["prompt_observation"]
        if self.context is ContextMode.FULL:
            said: Message = {"role": "assistant", "content": str(action)}
            self._conversation = (*self._conversation, said, self.builder.follow_up(info))
        return self._show(info), float(reward), terminated, truncated, info

    def _show(self, info: dict[str, Any]) -> Messages:
        if self.context is ContextMode.FULL:
            return tuple(dict(message) for message in self._conversation)
        return tuple(self.builder.prompt(info, self.history).messages())


def _format_info(parsed: ParsedReply) -> dict[str, Any]:
    return {
        "thought": parsed.thought,
        "valid_format": parsed.valid_format,
        "reason": parsed.reason,
        "action": parsed.action,
    }


def _done(given: str, info: dict[str, Any]) -> str:
    """Return the action of a turn as the history shows it."""
    if "action" in info and "valid_format" in info:  # a reply wrapper inside says what it made of the reply
        return NO_ACTION if info["action"] is None else str(info["action"])
    return NO_ACTION if isinstance(given, RejectedReply) else str(given)


def _room(env: gym.Env[Any, Any], history_length: int) -> int:
    """Return the characters that a prompt may need: its observations, the actions between them, the rest.

    What a reply wrapper takes from a reply, inside or outside of this one, may be as long as the reply.
    """
    observation: int = env.unwrapped.observation_space.max_length  # type: ignore[attr-defined]
    action: int = max(getattr(env.action_space, "max_length", 0), MAX_REPLY)
    return (history_length + 1) * (observation + action) + 65_536

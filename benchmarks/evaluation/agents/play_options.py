"""How a language model is shown an environment and how its replies are drawn, where no run says so."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from agent_gym.core.prompts import ContextMode, PromptBuilder, template_for
from agent_gym.core.replies import ReplyMode
from agent_gym.play.driver import EnvHandle
from agent_gym.support.checks import check_choice
from agent_gym.support.errors import ConfigError, suggest


@dataclass(frozen=True)
class PlayOptions:
    """Options of `hf:` and `openai:` agents, given as `--agent-option name=value`.

    Raises:
        ConfigError: A value is out of range.
    """

    prompt: str = "prompt"
    """Name of one of the environment's prompt templates, or a path to one."""
    history_length: int = 2
    """Earlier (observation, action) pairs shown in window context."""
    context: ContextMode = ContextMode.WINDOW
    """`window`: a fresh prompt every turn. `full`: one growing conversation."""
    thoughts: bool = False
    """Whether the prompt asks for a thought before the action."""
    reply_mode: ReplyMode = ReplyMode.LENIENT
    """How strictly replies are parsed."""
    temperature: float = 1.0
    """Sampling temperature."""
    top_p: float = 1.0
    """Nucleus sampling; 1 is off."""
    top_k: int = 0
    """Top-k sampling; 0 is off."""
    greedy: bool = False
    """Take the most likely token instead of sampling."""
    max_reply_tokens: int = 512
    """Longest reply, per turn."""

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < math.inf:
            raise ConfigError(f"temperature must be positive, got {self.temperature}; use greedy=true for 0")
        if not 0.0 < self.top_p <= 1.0 or self.top_k < 0:
            raise ConfigError(f"top_p must be in (0, 1] and top_k at least 0, got {self.top_p} and {self.top_k}")
        if self.max_reply_tokens < 1 or self.history_length < 0:
            raise ConfigError(
                f"max_reply_tokens must be at least 1 and history_length at least 0, got {self.max_reply_tokens} "
                f"and {self.history_length}"
            )

    def builder(self, handle: EnvHandle) -> PromptBuilder:
        """Return the prompt builder for an environment."""
        return PromptBuilder(template_for(handle.env, self.prompt), self.history_length, self.thoughts)

    def identity(self) -> dict[str, Any]:
        """Return the options as JSON values: part of what tells agents apart."""
        return {
            name: getattr(value, "value", value) for name, value in dataclasses.asdict(self).items()
        }  # enum members read back as text


Options = TypeVar("Options", bound=PlayOptions)


def read_options(kind: type[Options], given: Mapping[str, Any], agent: str) -> Options:
    """Return checked options.

    Args:
        kind: The agent's options.
        given: Values by name, as typed on a command line.
        agent: Name of the agent, for messages.

    Raises:
        ConfigError: An option is unknown or of another type.
    """
    known = {field.name: field.default for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(
                f"agent {agent!r} has no option {name!r}.{suggest(name, known)} Options: {', '.join(known)}"
            )
        values[name] = _convert(name, value, known[name])
    return kind(**values)


def _convert(name: str, value: Any, default: Any) -> Any:
    """Return `value` in the type of `default`."""
    wanted = type(default)
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if issubclass(wanted, StrEnum) and isinstance(value, str):
        return check_choice(name, wanted, value)
    raise ConfigError(f"{name} must be of type {wanted.__name__}, got {value!r}")


def no_options(agent: str, given: Mapping[str, Any]) -> None:
    """Refuse options for an agent that has none.

    Raises:
        ConfigError: There are some.
    """
    if given:
        raise ConfigError(f"agent {agent!r} takes no --agent-option, got {', '.join(sorted(given))}")


def no_argument(agent: str, argument: str, given: Mapping[str, Any]) -> None:
    """Refuse a text after the colon, and options.

    Raises:
        ConfigError: There is one, or there are some.
    """
    no_options(agent, given)
    if argument:
        raise ConfigError(f"agent {agent!r} takes nothing after a colon, got {argument!r}")

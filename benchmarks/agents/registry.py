"""From an agent's name to the agent."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from agent_gym.core.driver import EnvFace
from agent_gym.core.errors import ConfigError, suggest
from benchmarks.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.agents.basic import OracleKind, RandomKind
from benchmarks.agents.local import LocalKind
from benchmarks.agents.openai import OpenAIKind
from benchmarks.agents.trained import RunKind

GROUP = "agent_gym.agents"
_BUNDLED: tuple[type[AgentKind], ...] = (OracleKind, RandomKind, RunKind, LocalKind, OpenAIKind)


def agent_kinds() -> dict[str, AgentKind]:
    """Return the known kinds by name: the bundled ones and those that installed packages add."""
    kinds = [kind() for kind in _BUNDLED]
    kinds += [entry.load()() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)]
    return {kind.name: kind for kind in kinds}


def make_agent(spec: str, face: EnvFace, settings: AgentSettings | None = None) -> Contestant:
    """Make the agent that a text names.

    Args:
        spec: `oracle`, `random`, `run:FOLDER`, `hf:PATH`, `openai:MODEL@URL`, or another kind with its argument.
        face: The environment that will be played.
        settings: Batch size, device and options of the kind.

    Raises:
        ConfigError: There is no such kind, or its argument cannot be used; the message lists the kinds.
        DataError: What the argument names is not there.
    """
    kind, argument = _split(spec)
    return kind.make(argument, face, settings or AgentSettings())


def default_environment(spec: str) -> tuple[str, dict[str, Any]] | None:
    """Return id and options of the environment that an agent was made for, None where it plays any.

    Raises:
        ConfigError: There is no such kind.
        DataError: What the argument names is not there.
    """
    kind, argument = _split(spec)
    return kind.environment(argument)


def _split(spec: str) -> tuple[AgentKind, str]:
    name, _, argument = spec.partition(":")
    kinds = agent_kinds()
    if name not in kinds:
        known = ", ".join(kind.usage for kind in kinds.values())
        raise ConfigError(f"no agent {spec!r}.{suggest(name, kinds)} Known agents: {known}")
    return kinds[name], argument

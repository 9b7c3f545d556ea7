"""The agents that need no model."""

from __future__ import annotations

from agent_gym.core.agents import OracleAgent, RandomAgent
from agent_gym.core.driver import EnvFace
from agent_gym.core.errors import ConfigError
from benchmarks.agents.base import AgentKind, AgentSettings, Contestant


class OracleKind(AgentKind):
    """The environment's expert: an upper bound, and a check that every task can be solved."""

    name = "oracle"
    usage = "oracle"
    summary = "the environment's expert"

    def make(self, argument: str, face: EnvFace, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        _no_argument(self, argument)
        return Contestant(self.name, OracleAgent(face.env.reply_grammar))


class RandomKind(AgentKind):
    """Uniform choice among admissible actions: a lower bound."""

    name = "random"
    usage = "random"
    summary = "uniform choice among admissible actions"

    def make(self, argument: str, face: EnvFace, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        _no_argument(self, argument)
        return Contestant(self.name, RandomAgent(face.env.reply_grammar))


def _no_argument(kind: AgentKind, argument: str) -> None:
    if argument:
        raise ConfigError(f"agent {kind.name!r} takes nothing after a colon, got {argument!r}")

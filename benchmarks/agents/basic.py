"""The agents that need no model."""

from __future__ import annotations

from agent_gym.core.agents import OracleAgent, RandomAgent
from agent_gym.core.driver import EnvFace
from agent_gym.core.errors import ConfigError
from benchmarks.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.agents.play_options import no_options


class OracleKind(AgentKind):
    """The environment's expert: an upper bound, and a check that every task can be solved."""

    name = "oracle"
    usage = "oracle"
    summary = "the environment's expert"

    def make(self, argument: str, face: EnvFace, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        _no_argument(self, argument, settings)
        return Contestant(self.name, OracleAgent(face.env.reply_grammar))


class RandomKind(AgentKind):
    """Uniform choice among admissible actions: a lower bound."""

    name = "random"
    usage = "random"
    summary = "uniform choice among admissible actions"

    def make(self, argument: str, face: EnvFace, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        _no_argument(self, argument, settings)
        return Contestant(self.name, RandomAgent(face.env.reply_grammar))


def _no_argument(kind: AgentKind, argument: str, settings: AgentSettings) -> None:
    no_options(kind.name, settings.options)
    if argument:
        raise ConfigError(f"agent {kind.name!r} takes nothing after a colon, got {argument!r}")

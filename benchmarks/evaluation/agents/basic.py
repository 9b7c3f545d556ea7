"""The agents that need no model."""

from __future__ import annotations

from agent_gym.play.agents import OracleAgent, RandomAgent
from agent_gym.play.driver import EnvHandle
from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.play_options import no_argument


class OracleKind(AgentKind):
    """The environment's expert: an upper bound, and a check that every task can be solved."""

    name = "oracle"
    usage = "oracle"
    summary = "the environment's expert"

    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        no_argument(self.name, argument, settings.options)
        return Contestant(self.name, OracleAgent(handle.env.reply_grammar))


class RandomKind(AgentKind):
    """Uniform choice among admissible actions: a lower bound."""

    name = "random"
    usage = "random"
    summary = "uniform choice among admissible actions"

    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        no_argument(self.name, argument, settings.options)
        return Contestant(self.name, RandomAgent(handle.env.reply_grammar))

"""Agents that can be evaluated, named by a short text such as `oracle` or `run:runs/quickstart-seed0`."""

from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.registry import (
    agent_kinds,
    default_environment,
    default_seed,
    find_kind,
    make_agent,
)

__all__ = [
    "AgentKind",
    "AgentSettings",
    "Contestant",
    "agent_kinds",
    "default_environment",
    "default_seed",
    "find_kind",
    "make_agent",
]

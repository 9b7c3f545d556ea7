"""Agents, evaluation, statistics and speed measurements.

What evaluating needs from Python stands here: `evaluate` plays what an `EvalConfig` says, and `AgentKind` and
`Contestant` are what an agent of your own is made of. They are loaded when they are asked for, so that importing
the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.evaluation.agents.base import AgentKind, Contestant
    from benchmarks.evaluation.plan import EvalConfig
    from benchmarks.evaluation.run import evaluate

__all__ = ["AgentKind", "Contestant", "EvalConfig", "evaluate"]

_PLACES = {
    "AgentKind": "benchmarks.evaluation.agents.base",
    "Contestant": "benchmarks.evaluation.agents.base",
    "EvalConfig": "benchmarks.evaluation.plan",
    "evaluate": "benchmarks.evaluation.run",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

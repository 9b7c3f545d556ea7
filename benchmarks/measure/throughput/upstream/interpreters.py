"""The interpreters that have the original packages, and what these measure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent_gym.support.checks import check_choice
from agent_gym.support.errors import ConfigError
from benchmarks.measure.child import run_child

_FOLDER = Path(__file__).parent


class Original(StrEnum):
    """Suites that have an original to measure."""

    SOKOBAN = "sokoban"
    ALFWORLD = "alfworld"


@dataclass(frozen=True)
class Upstreams:
    """Interpreters by suite.

    Attributes:
        named: Suite -> interpreter.
        default: Interpreter for the others; None is this one.
    """

    named: Mapping[str, Path] = field(default_factory=dict)
    default: Path | None = None

    def of(self, suite: str) -> Path | None:
        """Return the interpreter of a suite, None for this one."""
        return self.named.get(suite, self.default)

    @classmethod
    def read(cls, texts: Sequence[str]) -> Upstreams:
        """Read `PYTHON` or `SUITE=PYTHON` texts.

        Raises:
            ConfigError: There is no such file or suite.
        """
        named: dict[str, Path] = {}
        default: Path | None = None
        for text in texts:
            suite, equals, path = text.partition("=")
            python = Path(path if equals else text)
            if not python.is_file():
                raise ConfigError(f"--upstream names a Python interpreter; there is no file {python}")
            if equals:
                named[check_choice("--upstream SUITE=PYTHON: the suite", Original, suite)] = python
            else:
                default = python
        return cls(named, default)


def run_original(
    script: str, upstream: Path | None, job: Mapping[str, Any], missing: str
) -> tuple[dict[str, Any], str]:
    """Measure an original package.

    Args:
        script: Module of this folder that an interpreter without this package runs.
        upstream: Interpreter that has the original; this one when None.
        job: What both sides measure.
        missing: What to say where the original is not installed; `{python}` stands for the interpreter,
            `{error}` for what it says.

    Returns:
        The figures, and "" or how to install the original.

    Raises:
        AgentGymError: The measurement failed.
    """
    interpreter = sys.executable if upstream is None else str(upstream)
    figures = run_child([interpreter, str(_FOLDER / f"{script}.py")], job)
    fault = figures.get("missing")
    return figures, missing.format(python=Path(interpreter).name, error=fault) if fault else ""

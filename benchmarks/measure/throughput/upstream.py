"""The interpreters that have the original packages, and measurements in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_gym.support.errors import AgentGymError, ConfigError, suggest

ORIGINALS = ("sokoban", "alfworld")
"""Suites that have an original to measure."""


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
            if not equals:
                default = python
            elif suite in ORIGINALS:
                named[suite] = python
            else:
                known = ", ".join(ORIGINALS)
                raise ConfigError(f"no original of {suite!r} to measure.{suggest(suite, ORIGINALS)} Known: {known}")
        return cls(named, default)


def run_child(command: Sequence[str], job: Mapping[str, Any]) -> dict[str, Any]:
    """Run one side and return the object that it prints.

    Raises:
        AgentGymError: It printed none.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, input=json.dumps(job), capture_output=True, text=True, check=False, env=environment
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise AgentGymError(f"the measurement by {Path(command[0]).name} failed: {last}") from None
    return found

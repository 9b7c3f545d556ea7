"""Measures alfworld 0.4.2 on textworld 1.7.0; run as a script by an interpreter that has both.

Games are played as the package's own environment plays them: its engine with its wrapper that names things, won
and admissible commands asked for. A start of an episode is load and reset, because the Gym layer does both.
Games and commands come from standard input.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_TASK_RULE = re.compile(r'"task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")')


def main() -> None:
    """Read the job, measure, print one JSON object."""
    job = json.load(sys.stdin)
    real = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)  # the planner's translator prints
    try:
        report = _measure(job)
    except ImportError as error:
        report = {"missing": str(error)}
    with os.fdopen(real, "w") as stream:
        stream.write(json.dumps(report) + "\n")


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("No module named 'alfworld'")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("ALFWORLD_DATA", scratch)  # importing makes this folder
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld import EnvInfos
        from textworld.envs.pddl.pddl import PddlEnv
    data = Path(spec.submodule_search_locations[0]) / "data"
    domain = (data / "alfred.pddl").read_text("utf-8")
    grammar = (data / "alfred.twl2").read_text("utf-8")

    def make() -> Any:
        return AlfredDemangler(PddlEnv(EnvInfos(won=True, admissible_commands=True, moves=True)))

    env = make()
    shown = hashlib.sha256()
    starts, steps = [], []
    contents = [_content(row, domain, grammar) for row in job["games"]]
    for content, commands in zip(contents, job["commands"], strict=True):
        begin = time.process_time()
        env.load(content)
        state = env.reset()
        starts.append(time.process_time() - begin)
        _note(shown, state)
        for command in commands:
            begin = time.process_time()
            state, _, _ = env.step(command)
            steps.append(time.process_time() - begin)
            _note(shown, state)
    return {
        "python": sys.version.split()[0],
        "digest": shown.hexdigest(),
        "step_seconds": steps,
        "start_seconds": starts,
        "kib_per_env": _kib_per_env(make, contents),
    }


def _content(row: dict[str, str], domain: str, grammar: str) -> dict[str, Any]:
    """Return a game file's content in the text format of the installed package."""
    match = _TASK_RULE.search(grammar)
    assert match is not None
    line = json.dumps(f"Your task is to: {row['task'].rstrip('. ')}.")
    text = grammar[: match.start(1)] + line + grammar[match.end(1) :]
    return {"pddl_domain": domain, "grammar": text, "pddl_problem": row["pddl_problem"], "solvable": True}


def _note(shown: Any, state: Any) -> None:
    row = [state.feedback, list(state["admissible_commands"]), bool(state["won"]), int(state["moves"])]
    shown.update(json.dumps(row).encode())


def _kib_per_env(make: Any, contents: list[dict[str, Any]]) -> float | None:
    """Return the growth of resident memory for each further environment, None where it cannot be read."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    held = []
    before = 0
    for content in (contents[-1], *contents):
        env = make()
        env.load(content)
        env.reset()
        held.append(env)
        if len(held) == 1:  # what all environments share is there now
            before = int(statm.read_text().split()[1])
    after = int(statm.read_text().split()[1])
    return (after - before) * os.sysconf("SC_PAGE_SIZE") / 1024 / len(contents)


if __name__ == "__main__":
    main()

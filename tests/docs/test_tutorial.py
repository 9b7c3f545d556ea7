"""The tutorial is followed to the letter: its files are written, its commands run, and the policy learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, ROOT, blocks, split_commands

PAGE = DOCS / "tutorial.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the tutorial fills."""
    folder = tmp_path_factory.mktemp("tutorial")
    for block in blocks(PAGE):
        if block.title:
            (folder / block.title).parent.mkdir(exist_ok=True)
            (folder / block.title).write_text(block.text, "utf-8")
    return folder


def run(folder: Path, *words: str, **variables: str) -> str:
    """Run a command in the folder as somebody would who has agent-gym installed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "NO_COLOR": "1", **variables}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_python_blocks_run_and_every_task_can_be_won_in_time(package: Path) -> None:
    plain = [block.text for block in blocks(PAGE) if block.language == "python" and not block.title]
    assert plain
    check = (
        "import gymnasium as gym\n"
        "env = gym.make('lift:lift/Lift-v0').unwrapped\n"
        "from lift.world import Lift\n"
        "longest = Lift(3, ((1, 5), (5, 1), (1, 5)))\n"
        "assert len(longest.plan()) <= env.max_turns\n"
    )
    for text in (*plain, check):
        run(package, sys.executable, "-c", text)


@pytest.mark.slow
def test_the_environment_passes_the_conformance_suite(package: Path) -> None:
    folder = str(ROOT / "tests" / "conformance")
    run(
        package,
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), folder),
        AGENT_GYM_CONFORMANCE="lift:lift/Lift-v0",
    )


@pytest.mark.slow
def test_the_commands_run_and_the_policy_learns(package: Path) -> None:
    lines = [words for block in blocks(PAGE) if block.language == "bash" for words in split_commands(block.text)]
    ran = [words[1] for words in lines if words[0] == "agent-gym"]
    assert ran == ["play", "eval", "eval", "train", "eval", "report"]
    for words in lines:
        if words[0] == "agent-gym":
            run(package, sys.executable, "-m", "agent_gym", *words[1:])
    summary = json.loads((package / "runs" / "lift" / "summary.json").read_text("utf-8"))
    before, after = (summary[when]["test"]["success"] for when in ("before", "after"))
    assert after > before + 0.05, f"success went from {before} to {after}"

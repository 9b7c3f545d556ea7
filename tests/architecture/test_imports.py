"""The import rule of the rooms holds, and its checks see what would break it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.source import PACKAGES, ROOT


class Wrong(NamedTuple):
    """An import that breaks a contract: the module that is changed, the line added, what it reaches."""

    contract: str
    module: str
    line: str
    imported: str
    lazy: bool = False


WRONG = (
    Wrong(
        "The rooms of agent_gym are built upon one another",
        "agent_gym.core.tasks",
        "from agent_gym.play.runner import Runner",
        "agent_gym.play.runner",
    ),
    Wrong(
        "An environment is built upon its data, and these upon its world",
        "agent_gym.envs.sokoban.world.level",
        "from agent_gym.envs.sokoban.tasks import SeedIds",
        "agent_gym.envs.sokoban.tasks",
        lazy=True,
    ),
    Wrong(
        "No environment knows another",
        "agent_gym.envs.sokoban.tasks",
        "import agent_gym.envs.alfworld.tasks",
        "agent_gym.envs.alfworld.tasks",
    ),
    Wrong(
        "A world knows neither Gymnasium nor prompts",
        "agent_gym.envs.webshop.world.shop",
        "import gymnasium as gym",
        "gymnasium",
    ),
    Wrong(
        "A world knows neither Gymnasium nor prompts",
        "agent_gym.envs.alfworld.world.texts",
        "from jinja2 import Environment",
        "jinja2",
        lazy=True,
    ),
    Wrong(
        "A world knows neither Gymnasium nor prompts",
        "agent_gym.envs.searchqa.world.facts",
        "from agent_gym.core.env import TextEnv",
        "agent_gym.core.env",
    ),
    Wrong(
        "The core does not know which environments are registered",
        "agent_gym.core.env",
        "from agent_gym.registration import register_env",
        "agent_gym.registration",
        lazy=True,
    ),
    Wrong(
        "The environments know neither the trainer nor the benchmarks",
        "agent_gym.play.runner",
        "from trainers.rollout import collect",
        "trainers.rollout.collect",
        lazy=True,
    ),
    Wrong(
        "Only the command itself imports the command line",
        "benchmarks.cli",
        "from agent_gym.cli.main import main",
        "agent_gym.cli.main",
        lazy=True,
    ),
    Wrong(
        "The rooms of the trainer are built upon one another",
        "trainers.policy.policy",
        "from trainers.loop import Trainer",
        "trainers.loop",
        lazy=True,
    ),
    Wrong(
        "Only the loop and the command make the report of a run",
        "trainers.learner",
        "from trainers.report.page import render",
        "trainers.report.page",
    ),
    Wrong("Settings are read without torch", "trainers.settings.tiny", "import torch", "torch", lazy=True),
    Wrong(
        "The trainer knows neither the environments nor the benchmarks",
        "trainers.rollout.curriculum",
        "from agent_gym.envs.sokoban.env import SokobanEnv",
        "agent_gym.envs.sokoban.env",
    ),
    Wrong(
        "Evaluation knows the trainer only through its agents",
        "benchmarks.evaluation.run",
        "from trainers.policy.policy import Policy",
        "trainers.policy.policy",
        lazy=True,
    ),
    Wrong(
        "What users run does not know what measures this project",
        "benchmarks.evaluation.show",
        "from benchmarks.measure import smollm",
        "benchmarks.measure.smollm",
    ),
)


def lint(root: Path) -> tuple[bool, str]:
    """Return whether the contracts hold for the packages in a folder, and what the linter says."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with the sources of the packages and the contracts."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            target = tmp_path / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return tmp_path


def test_every_contract_holds() -> None:
    kept, said = lint(ROOT)
    assert kept, said


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.module} to {wrong.imported}")
def test_a_wrong_import_is_named_with_the_contract_that_it_breaks(wrong: Wrong, copy: Path) -> None:
    file = copy.joinpath(*wrong.module.split(".")).with_suffix(".py")
    assert file.exists(), "the module has moved: name its new place"
    added = f"\n\ndef later() -> None:\n    {wrong.line}\n" if wrong.lazy else f"\n\n{wrong.line}\n"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(added)
    kept, said = lint(copy)
    assert not kept
    assert f"{wrong.module} -> {wrong.imported} (l." in _sections(said)[wrong.contract]


def _sections(said: str) -> dict[str, str]:
    """Return what the linter says of each broken contract."""
    _, *parts = re.split(r"^(.+)\n-+$", said, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_a_room_without_a_place_in_the_plan_is_named(copy: Path) -> None:
    (copy / "trainers" / "attic.py").write_text("", "utf-8")
    kept, said = lint(copy)
    assert not kept
    assert "- trainers.attic" in said


def test_every_contract_is_tried_by_a_wrong_import() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    assert {wrong.contract for wrong in WRONG} == {contract["name"] for contract in contracts}

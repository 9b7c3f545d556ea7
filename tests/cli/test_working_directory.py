"""What lies in the working directory: folders named like our packages, modules with environments."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.cli.command import environment

HOUSE = """
from agent_gym.envs.sokoban.env import SokobanEnv
from agent_gym.registration import register_env


class HouseEnv(SokobanEnv):
    name = "house"


register_env("agent_gym/House-v0", "house:HouseEnv")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with packages that have our names and refuse to be imported, and a module of a user's."""
    for name in ("benchmarks", "trainers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the namesake was imported')\n", "utf-8")
    (tmp_path / "house.py").write_text(HOUSE, "utf-8")
    return tmp_path


def run(folder: Path, *command: str, paths: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with further places for modules."""
    variables = environment()
    variables["PYTHONPATH"] = ":".join([variables["PYTHONPATH"], *map(str, paths)])
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("module", ["agent_gym", "agent_gym.cli.main"])
def test_namesakes_of_our_packages_do_not_take_their_place(module: str, folder: Path) -> None:
    for arguments in (("list",), ("train", "--list"), ("leaderboard", "--help")):
        done = run(folder, sys.executable, "-m", module, *arguments)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_installed_command_does_not_see_namesakes_either(folder: Path) -> None:
    script = Path(sysconfig.get_path("scripts")) / "agent-gym"
    if not script.exists():
        pytest.skip("the command is not installed")
    for arguments in (("list",), ("train", "--list"), ("leaderboard", "--help")):
        done = run(folder, str(script), *arguments)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_processes_of_torchrun_do_not_see_namesakes(folder: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = run(folder, sys.executable, *launcher, "-m", "agent_gym", "train", "--list")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("quickstart") >= 2
    assert "namesake" not in done.stdout + done.stderr


@pytest.mark.parametrize("workers", ["0", "1"])
def test_environments_in_the_working_directory_are_found_in_every_process(workers: str, folder: Path) -> None:
    chosen = ("--env", "house:agent_gym/House-v0", "--agent", "oracle", "--episodes", "2", "--workers", workers)
    done = run(folder, sys.executable, "-m", "agent_gym", "eval", *chosen)
    assert done.returncode == 0, done.stderr
    assert "2 of 2" in done.stdout


def test_the_command_runs_where_the_working_directory_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    done = run(gone, sys.executable, "-c", program, "-m", "agent_gym", "--version")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nowhere.at_all:register", "ModuleNotFoundError: No module named 'nowhere'"),
        ("house:missing", "AttributeError: module 'house' has no attribute 'missing'"),
        ("house:HOUSE_IS_NONE", "TypeError: 'NoneType' object is not callable"),
    ],
)
def test_subcommands_that_cannot_be_loaded_are_named_in_one_line_and_left_out(
    target: str, reason: str, folder: Path
) -> None:
    (folder / "house.py").write_text("HOUSE_IS_NONE = None\n", "utf-8")
    site = folder / "site"
    described = site / "broken_commands-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-commands\nVersion: 1.0\n", "utf-8")
    (described / "entry_points.txt").write_text(f"[agent_gym.commands]\nbroken = {target}\n", "utf-8")
    done = run(folder, sys.executable, "-m", "agent_gym", "list", paths=(site,))
    assert done.returncode == 0
    assert done.stderr == f"warning: the subcommands of {target} are left out: {reason}\n"
    assert "agent_gym/Sokoban-v0" in done.stdout

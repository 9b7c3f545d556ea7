"""`agent-gym list`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_gym import known_ids
from tests.cli.command import agent_gym, environment


def test_every_id_is_listed_with_what_it_is_and_its_turn_limit() -> None:
    done = agent_gym("list")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert sorted(lines) == known_ids()
    assert "6x6" in lines["agent_gym/Sokoban-6x6-1-v0"]
    assert lines["agent_gym/Boxoban-v0"].rstrip().endswith("200")


def test_the_list_is_there_for_programs_too() -> None:
    rows = json.loads(agent_gym("list", "--json").stdout)
    assert [row["id"] for row in rows] == known_ids()
    assert all(set(row) == {"id", "what", "max_turns"} and row["what"] and row["max_turns"] > 0 for row in rows)


def test_an_environment_that_cannot_be_made_says_why_and_the_others_are_listed(tmp_path: Path) -> None:
    hidden = {name: value for name, value in environment().items() if not name.startswith("AGENT_GYM_CHROM")}
    done = [
        subprocess.run(
            [sys.executable, "-m", "agent_gym.cli.main", "list", *option],
            env={**hidden, "PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        for option in ([], ["--json"])
    ]
    assert [(each.returncode, each.stderr) for each in done] == [(0, ""), (0, "")]
    rows = {row["id"]: row for row in json.loads(done[1].stdout)}
    assert sorted(rows) == known_ids()
    refused = rows.pop("agent_gym/WebShopBrowser-v0")
    assert refused["max_turns"] is None
    assert refused["what"].startswith("WebShop played in headless Chromium")
    assert "needs a browser" in refused["error"]
    assert all(set(row) == {"id", "what", "max_turns"} for row in rows.values())
    assert "needs a browser" in done[0].stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_output_that_cannot_be_written_is_one_line(option: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "agent_gym.cli.main", "list", *option]
        done = subprocess.run(
            command, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


def test_an_unknown_command_is_refused_with_status_2() -> None:
    done = agent_gym("lst")
    assert done.returncode == 2
    assert "lst" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_arguments_show_the_help() -> None:
    done = agent_gym()
    assert "agent-gym list" in done.stdout + done.stderr

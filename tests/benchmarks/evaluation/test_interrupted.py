"""An evaluation of a model behind an address that is interrupted, killed and taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from agent_gym.play.episode import read_episodes

pytest.importorskip("httpx", reason="httpx is not installed")

EPISODES = 24
# Programs that are started in the background of a script inherit that SIGINT is ignored.
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from agent_gym.cli.main import main; main()"
)


def start(service, output, answers, *more):
    """Start the evaluation against a service that answers so many further requests and then hangs."""
    service.release.clear()
    service.answers = None if answers is None else len(service.requests) + answers
    arguments = [
        "--agent",
        f"openai:plain@{service.url}",
        "-n",
        str(EPISODES),
        "--max-turns",
        "2",
        "--parallel",
        "4",
        *more,
    ]
    command = [sys.executable, "-c", MAIN, "eval", "--env", "Sokoban-v0", "--output", str(output)]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process, condition):
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_ctrl_c_and_kill_9_amid_requests_every_episode_counts_exactly_once(service, tmp_path):
    output, episodes = tmp_path / "r.json", tmp_path / "r.episodes.jsonl"

    def hanging():
        return len(service.requests) >= service.answers + 4

    first = start(service, output, 12)
    until(first, hanging)
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    assert (first.returncode, "interrupted" in errors, "Traceback" in errors) == (130, True, False)
    stored = json.loads(output.read_text())
    played = stored["summary"]["n_ok"]
    assert (stored["complete"], stored["summary"]["n_error"]) == (False, 0)
    assert 0 < played == len(list(read_episodes(episodes))) < EPISODES
    service.release.set()

    second = start(service, output, 12, "--resume")
    until(second, hanging)
    os.kill(second.pid, signal.SIGKILL)
    second.communicate()
    assert played < episodes.read_bytes().count(b"\n") < EPISODES
    with episodes.open("ab") as stream:
        stream.write(b'{"schema_version": 1, "env_id": "agent')
    service.release.set()

    third = start(service, output, None, "--resume", "--json")
    shown, errors = third.communicate(timeout=240)
    assert third.returncode == 0, errors
    summary = json.loads(shown)
    assert (summary["n_ok"], summary["n_error"], summary["n_missing"]) == (EPISODES, 0, 0)
    counts = Counter((episode.task_id, episode.seed) for episode in read_episodes(episodes))
    assert len(counts) == EPISODES and set(counts.values()) == {1}
    rows = json.loads(output.read_text())["episodes"]
    assert {(row["task_id"], row["episode_seed"]) for row in rows} == set(counts)

"""`agent-gym play`, by scripts through a pipe and keys through a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from agent_gym.core.info import StopReason
from agent_gym.play.episode import read_episodes
from tests.cli.command import ROOT, agent_gym, assert_one_line_error, environment

# One push to the right solves the room.
ROOM = 'levels=["######\\n#    #\\n#@$. #\\n######"]'
PLAY = ("play", "--option", ROOM, "--seed", "0")


def test_a_script_on_standard_input_plays_and_records(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    done = agent_gym(*PLAY, "--record", str(file), stdin="?\nup\nnonsense\ndo\nright\n")
    assert done.returncode == 0, done.stderr
    assert "Push every box onto a goal." in done.stdout
    assert "success after 4 turns" in done.stdout
    (episode,) = read_episodes(file)
    assert [turn.action for turn in episode.turns] == ["up", "nonsense", "down", "right"]
    assert [turn.valid_action for turn in episode.turns] == [True, False, True, True]
    assert episode.stop_reason is StopReason.SUCCESS


def test_a_number_and_the_expert_choose_actions() -> None:
    done = agent_gym(*PLAY, stdin="?\n!\n")
    assert "success after 1 turns" in done.stdout
    assert "1: up  2: right" in done.stdout
    assert "turn 1: up" in agent_gym(*PLAY, stdin="1\nq\n").stdout


def test_quitting_and_the_end_of_input_leave_without_an_error(tmp_path: Path) -> None:
    for text in ("q\n", "up\n"):
        file = tmp_path / "none.jsonl"
        done = agent_gym(*PLAY, "--record", str(file), stdin=text)
        assert done.returncode == 0, done.stderr
        assert list(read_episodes(file)) == []


def test_the_expert_and_chance_play_and_repeat_from_their_seed(tmp_path: Path) -> None:
    done = agent_gym("play", "--agent", "oracle", "--delay", "0", "--seed", "5", "--episodes", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("success after") == 2
    texts = [agent_gym("play", "--agent", "random", "--delay", "0", "--seed", "5").stdout for _ in range(2)]
    assert texts[0] == texts[1]
    assert "turn 1:" in texts[0]


def test_arrow_keys_work_at_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_gym.cli.main", *PLAY, "--record", str(file)],
        stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env={**environment(), "TERM": "xterm"}, close_fds=True,
    )  # fmt: skip
    os.close(slave)
    shown = ""
    keys = [b"\x1b[A\n", b"\x1b[B\n", b"\x1b[C\n"]
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([master], [], [], 0.2)
            if ready:
                try:
                    data = os.read(master, 4096)
                except OSError:  # the other end is closed
                    break
                if not data:
                    break
                shown += data.decode("utf-8", "replace")
            if keys and shown.rstrip(" ").count("> ") + shown.endswith("> ") and shown.endswith("> "):
                os.write(master, keys.pop(0))
                shown += "\n"
    finally:
        os.close(master)
        if process.poll() is None and time.monotonic() >= deadline:
            process.kill()
        process.wait(timeout=30)
    assert process.returncode == 0, shown
    (episode,) = read_episodes(file)
    assert [turn.action for turn in episode.turns] == ["up", "down", "right"]


def test_mistakes_are_one_line() -> None:
    assert_one_line_error(agent_gym("play", "--env", "Sokobann-v0"), "Sokobann-v0")
    assert_one_line_error(agent_gym("play", "--option", "sice=3"), "'sice'", "'size'")
    assert_one_line_error(agent_gym("play", "--option", "size"), "name=value")
    assert_one_line_error(agent_gym("play", "--task", "gen/nothing"), "gen/nothing")
    assert_one_line_error(agent_gym("play", "--split", "tset"), "tset", "test")


def test_free_text_without_one_of_its_forms_is_asked_for_again() -> None:
    done = agent_gym("play", "--env", "SearchQA-v0", "--seed", "1", stdin="foo\nsearch[\nsearch[who]\nq\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Type search[query] or answer[text], got") == 2
    assert "turn 1: search[who]" in done.stdout

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from agent_gym.play.episode import read_episodes
from agent_gym.support.errors import ConfigError, DataError
from benchmarks.evaluation.arguments import parse_seeds, read_task_list


def command(*arguments):
    return [sys.executable, "-m", "agent_gym.cli.main", *map(str, arguments)]


def run(*arguments, **options):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False, **options)


def test_oracle_wins_and_the_result_is_printed_and_written(tmp_path):
    output = tmp_path / "r.json"
    done = run("eval", "--env", "Sokoban-v0", "--agent", "oracle", "-n", 20, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "success" in done.stdout
    assert "1.000" in done.stdout
    assert json.loads(output.read_text())["summary"]["n_ok"] == 20
    again = run("eval", "--env", "Sokoban-v0", "--agent", "oracle", "-n", 20, "--output", output)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    assert "Traceback" not in again.stderr


def test_an_evaluation_goes_on_with_its_own_seeds_where_none_are_named(tmp_path):
    output = tmp_path / "r.json"
    arguments = ("eval", "--env", "Sokoban-v0", "--agent", "random", "-n", 4, "--output", output)
    first = run(*arguments, "--seeds", "3,5")
    assert first.returncode == 0, first.stderr
    lines = (tmp_path / "r.episodes.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "r.episodes.jsonl").write_text("".join(lines[:-3]), "utf-8")
    again = run(*arguments, "--resume")
    assert again.returncode == 0, again.stderr
    result = json.loads(output.read_text())
    assert (result["seeds"], result["summary"]["n_ok"]) == ([3, 5], 8)
    other = run(*arguments, "--resume", "--seeds", "4")
    assert other.returncode == 2
    assert "another evaluation" in other.stderr


def test_help_teaches_with_examples_and_needs_no_torch():
    for arguments in (("eval",), ("bench",), ("bench", "throughput"), ("bench", "sweep")):
        code = (
            "import sys; from agent_gym.cli.main import build_app\n"
            f"try: build_app()({[*arguments, '--help']!r})\n"
            "finally: assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert arguments == ("bench",) or "agent-gym " + " ".join(arguments) in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--env", "Sokoban-v0", "--agent", "orcale"), "Known agents"),
        (("--env", "Sokobann-v0", "--agent", "oracle"), "Did you mean"),
        (("--agent", "oracle"), "name one with --env"),
        (("--env", "Sokoban-v0", "--agent", "oracle", "--split", "nope"), "split"),
        (("--env", "Sokoban-v0", "--agent", "oracle", "--option", "sise=6"), "no option 'sise'"),
        (("--env", "Sokoban-v0", "--agent", "oracle", "--seeds", "x"), "0,1,2 or 0-4"),
        (("--env", "Sokoban-v0", "--agent", "oracle", "--tasks", "missing.txt"), "no task list"),
        (("--env", "Sokoban-v0", "--agent", "oracle", "--resume"), "give --output"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line_and_no_traceback(arguments, message, tmp_path):
    done = run("eval", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_after_kill_9_the_same_command_with_resume_plays_what_is_missing(tmp_path):
    output, episodes = tmp_path / "r.json", tmp_path / "r.episodes.jsonl"
    arguments = ("eval", "--env", "Sokoban-8x8-3-v0", "--agent", "oracle", "-n", 60, "--parallel", 2)
    process = subprocess.Popen(
        command(*arguments, "--output", output), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if episodes.exists() and episodes.read_bytes().count(b"\n") >= 3:
            break
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    played = episodes.read_bytes().count(b"\n")
    assert 3 <= played < 60
    with episodes.open("ab") as stream:
        stream.write(b'{"schema_version": 1, "env_id": "cut')
    done = run(*arguments, "--output", output, "--resume")
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert (found["complete"], found["summary"]["n_ok"], found["summary"]["n_missing"]) == (True, 60, 0)
    keys = [(episode.task_id, episode.seed) for episode in read_episodes(episodes)]
    assert len(keys) == len(set(keys)) == 60


def test_seeds_are_numbers_and_ranges():
    assert parse_seeds("0,3, 5-7") == (0, 3, 5, 6, 7)
    for text in ("", "a", "1-", "-1", "3-1", "1,0-2"):
        with pytest.raises(ConfigError, match=f"--seeds.*got '{text}'"):
            parse_seeds(text)


def test_task_lists_are_ids_or_task_files(tmp_path):
    path = tmp_path / "list"
    path.write_text("# comment\na/1\n\na/2\n")
    assert read_task_list(path) == (("a/1", "a/2"), None)
    path.write_text('{"id": "a"}\n')
    assert read_task_list(path) == (None, str(path))
    path.write_text("\n")
    with pytest.raises(DataError, match="holds no task"):
        read_task_list(path)

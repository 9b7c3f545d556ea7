from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from agent_gym.envs.alfworld.data.generator import TINY, GeneratedSplit, household_from_seed
from benchmarks.measure.throughput.alfworld import make_job, measure
from benchmarks.measure.throughput.alfworld_report import measure_alfworld
from tests.envs.alfworld.files import write_game_files

STOCK = find_spec("alfworld") is not None and find_spec("textworld") is not None


@pytest.fixture(scope="module")
def job():
    job = make_job(0.01, 1, games=2, stock_turns=4)
    return job | {"memory_envs": 5, "crowd": 3}


def _bench(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "agent_gym.cli.main", "bench", "throughput", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_every_figure_is_a_positive_number_and_the_digest_repeats(job):
    figures, again = measure(job), measure(job)
    assert figures["digest"] == again["digest"]
    for name in ("kib_per_env", "text_kib_per_env", "kib_per_game", "crowd_seconds"):
        assert figures[name] > 0
    for name in ("steps_per_s", "text_steps_per_s", "start_seconds", "text_start_seconds", "compile_seconds"):
        assert all(number > 0 for number in figures[name])
    assert figures["index_seconds"] is None


def test_a_data_folder_is_indexed_at_the_size_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_GYM_CACHE", str(tmp_path / "cache"))
    grammar = 'template :: "move {o} to {r}"\n"task": [{"rhs": "Your task is to: x"}]'
    for seed in range(3):
        record = household_from_seed(TINY, GeneratedSplit.TRAIN, seed)
        write_game_files(record, tmp_path / "json_2.1.1", "(define (domain alfred) (:action help))", grammar)
    job = make_job(0.01, 1, tmp_path, games=2, stock_turns=3)
    assert job["index_games"] == 3553
    figures = measure(job | {"memory_envs": 2, "crowd": 1, "index_games": 7})
    assert figures["index_seconds"]["warm"] > 0
    assert figures["index_seconds"]["cold"] > 0


def test_without_the_original_the_table_says_how_to_install_it(tmp_path):
    blocked = tmp_path / "alfworld"
    blocked.mkdir()
    (blocked / "__init__.py").write_text("raise ImportError('not here')")
    output = tmp_path / "t.json"
    arguments = ("--env", "alfworld", "--seconds", "0.05", "--repeats", "1", "--output", str(output))
    done = _bench(*arguments, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "textworld==1.7.0" in done.stdout
    assert json.loads(output.read_text())["upstream"] is None


def test_data_that_is_missing_or_not_read_is_refused(tmp_path):
    for arguments, message in (
        (("--env", "sokoban", "--data", str(tmp_path)), "the suite 'sokoban' reads none"),
        (("--env", "alfworld", "--data", str(tmp_path / "none")), "no data at"),
    ):
        done = _bench(*arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not STOCK, reason='needs pip install "agent-gym[alfworld]"')
def test_both_sides_show_the_same_texts():
    figures = measure_alfworld(None, 0.05, 1, None, games=2)
    assert figures["texts_agree"]
    assert figures["engine_steps_per_s"] > 100 * figures["upstream_steps_per_s"]

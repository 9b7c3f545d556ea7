from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks.measure.memory import peak_kib_per_item
from benchmarks.measure.throughput.rates import cpu_rate, durations
from benchmarks.measure.throughput.sokoban import make_job, measure


@pytest.fixture(scope="module")
def figures():
    job = make_job(0.01, 1, least_rooms=1)
    job["memory_envs"] = 5
    return measure(job)


def test_board_and_text_environment_earn_the_same_on_the_same_rooms_and_actions(figures):
    # Solved rooms end in the text environment and go on on the bare board, so only unsolved ones compare.
    large = figures["rooms"]["10x10-4"]
    assert large["return"] == pytest.approx(large["text_return"])


def test_every_figure_is_a_positive_number(figures):
    for row in figures["rooms"].values():
        for name, value in row.items():
            if "return" not in name:
                assert all(number > 0 for number in (value if isinstance(value, list) else [value])), name


def test_both_sides_get_rooms_in_the_originals_codes():
    job = make_job(1.0, 1)
    for room in job["rooms"]:
        for xsb, fixed, state in zip(room["xsb"], room["fixed"], room["state"], strict=True):
            flat = [code for line in state for code in line]
            assert flat.count(5) == 1
            assert flat.count(3) + flat.count(4) == room["boxes"]
            assert sum(code == 2 for line in fixed for code in line) == room["boxes"]
            assert len(xsb.splitlines()) == room["size"][0]


def test_rates_count_all_the_work_done():
    calls = []
    rate = cpu_rate(lambda: calls.append(sum(range(20_000))), 10, 0.02)
    assert 0 < rate < 10 * len(calls) / 0.02 + 1
    assert len(durations(lambda _: None, 0.0, 3)) == 3
    assert 0.9 < peak_kib_per_item(lambda _: bytearray(1024), 50) < 3


def test_without_the_original_the_table_says_how_to_install_it(tmp_path):
    output = tmp_path / "t.json"
    arguments = ["bench", "throughput", "--seconds", "0.05", "--repeats", "1", "--output", str(output)]
    blocked = tmp_path / "gym_sokoban"
    blocked.mkdir()
    (blocked / "__init__.py").write_text("raise ImportError('not here')")
    done = subprocess.run(
        [sys.executable, "-m", "agent_gym.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "gym-sokoban==0.0.6" in done.stdout
    assert json.loads(output.read_text())["rooms"]["10x10-4"]["upstream"] is None


def test_unknown_suites_and_interpreters_are_named():
    for arguments, message in ((("--env", "sokobann"), "Did you mean"), (("--upstream", "nope"), "no file nope")):
        done = subprocess.run(
            [sys.executable, "-m", "agent_gym.cli.main", "bench", "throughput", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert message in done.stderr

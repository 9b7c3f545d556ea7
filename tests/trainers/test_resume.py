"""A run that was stopped, killed or damaged goes on to the same weights as an unbroken one."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.runs import (
    SMALL,
    assert_equal_runs,
    episode_texts,
    metrics,
    new_run,
    stop_after,
    summary,
    train,
)
from trainers.run.checkpoint import CheckpointStore, CheckpointWarning
from trainers.run.extend import extend
from trainers.run.folder import RunFolder
from trainers.settings.reading import merge

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A whole run of six iterations."""
    folder = new_run(tmp_path_factory.mktemp("unbroken") / "run", "iterations=6")
    train(folder)
    return folder


def test_three_iterations_and_three_more_are_six(unbroken: RunFolder, tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    train(folder, stop_after(3))
    assert [row["iteration"] for row in metrics(folder.path)] == [0, 1, 2]
    assert "after" not in summary(folder.path)
    train(RunFolder.open(folder.path))
    assert_equal_runs(unbroken.path, folder.path)


@pytest.mark.slow
def test_a_run_stopped_after_every_iteration_ends_the_same(unbroken: RunFolder, tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    for _ in range(6):
        train(RunFolder.open(folder.path), stop_after(1))
    train(RunFolder.open(folder.path))
    assert_equal_runs(unbroken.path, folder.path)


def test_iterations_behind_the_last_checkpoint_are_done_again(unbroken: RunFolder, tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    train(folder, stop_after(4))
    store = CheckpointStore(folder.checkpoints)
    kept = store.steps()
    assert kept == [3, 4]
    for file in sorted((folder.checkpoints / "step-00000004").rglob("*")):
        if file.is_file():
            file.unlink()
    with pytest.warns(CheckpointWarning, match="step-00000004"):
        train(RunFolder.open(folder.path))
    assert_equal_runs(unbroken.path, folder.path)


def test_two_runs_of_one_seed_are_equal_and_of_two_seeds_are_not(unbroken: RunFolder, tmp_path: Path) -> None:
    again = new_run(tmp_path / "again", "iterations=6")
    train(again)
    assert_equal_runs(unbroken.path, again.path)
    other = new_run(tmp_path / "other", "iterations=1", "seed=1")
    train(other)
    assert metrics(other.path)[0] != metrics(unbroken.path)[0]


def test_the_cold_start_repeats_too(tmp_path: Path) -> None:
    folders = [new_run(tmp_path / name, "iterations=1", cold=name == "saved") for name in ("fresh", "saved")]
    for folder in folders:
        train(folder)
    assert_equal_runs(folders[0].path, folders[1].path)


@pytest.mark.parametrize("damage", [pytest.param("cut", marks=pytest.mark.slow), "changed"])
def test_a_damaged_checkpoint_is_passed_over_with_its_name(
    damage: str, unbroken: RunFolder, tmp_path: Path
) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    train(folder, stop_after(3))
    weights = folder.checkpoints / "step-00000003" / "model" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    if damage == "cut":
        del data[-100:]
    else:
        data[-50] ^= 1
    weights.write_bytes(data)
    with pytest.warns(CheckpointWarning, match=r"step-00000003.*model\.safetensors"):
        train(RunFolder.open(folder.path))
    assert_equal_runs(unbroken.path, folder.path)


def test_a_run_whose_checkpoints_are_all_damaged_is_not_started_over(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    train(folder, stop_after(2))
    before = metrics(folder.path)
    for manifest in folder.checkpoints.glob("*/manifest.json"):
        manifest.write_text("{}", encoding="utf-8")
    with pytest.warns(CheckpointWarning), pytest.raises(DataError, match="none of the 2 checkpoints"):
        train(RunFolder.open(folder.path))
    assert metrics(folder.path) == before


def test_a_finished_run_stays_as_it_is_when_resumed(unbroken: RunFolder) -> None:
    before = (metrics(unbroken.path), episode_texts(unbroken.path), summary(unbroken.path))
    train(RunFolder.open(unbroken.path))
    assert (metrics(unbroken.path), episode_texts(unbroken.path), summary(unbroken.path)) == before


def test_a_finished_run_is_extended_to_what_a_longer_one_would_have_been(
    unbroken: RunFolder, tmp_path: Path
) -> None:
    folder = new_run(tmp_path / "run", "iterations=3", "run.stop_on=collapse")
    train(folder)
    ended = summary(folder.path)
    extend(RunFolder.open(folder.path), ["iterations=6", "run.stop_on=[]"])
    assert folder.config() == unbroken.config()
    assert summary(folder.path) == {name: ended[name] for name in ("cold_start", "before")}
    assert not list(folder.episodes.glob("*after*"))
    train(RunFolder.open(folder.path))
    assert_equal_runs(unbroken.path, folder.path)


def test_a_learning_rate_that_falls_follows_the_new_number_of_iterations(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=1", "optim.schedule=linear")
    train(folder)
    extend(folder, ["iterations=4"])
    train(RunFolder.open(folder.path), stop_after(2))
    rates = [row["optim/learning_rate"] for row in metrics(folder.path)]
    assert rates[:2] == pytest.approx([3e-3, 0.75 * 3e-3])


@pytest.mark.parametrize(
    "override",
    [
        "seed=1",
        "optim.learning_rate=1",
        "evaluation.episodes=9",
        "run.threads=2",
        'run={"threads": 2}',
        "iterations=5",
    ],
)
def test_what_would_make_another_run_of_it_is_refused_with_what_may_be_changed(
    override: str, unbroken: RunFolder
) -> None:
    before = (unbroken.config(), summary(unbroken.path))
    named = "at least 6" if override.startswith("iterations") else r"iterations, run\.checkpoint_every"
    with pytest.raises(ConfigError, match=named):
        extend(unbroken, ["iterations=8", override])
    assert (unbroken.config(), summary(unbroken.path)) == before


def test_the_best_checkpoint_keeps_its_score_when_the_run_is_stopped_there(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=4", "evaluation.every=2")
    train(folder, stop_after(2))
    best = CheckpointStore(folder.checkpoints).best()
    assert best is not None
    assert best.step == 2
    assert best.score == metrics(folder.path)[1]["test/success"]


@pytest.mark.parametrize(("asked", "steps"), [(1, 0), (30, 0), (49, 1), (60, 12)])
def test_a_run_stopped_in_its_cold_start_goes_on_with_its_cloning(
    asked: int, steps: int, unbroken: RunFolder, tmp_path: Path
) -> None:
    folder = new_run(tmp_path / "run", "iterations=1", cold=False)
    questions = itertools.count(1)
    assert train(folder, lambda: next(questions) >= asked) == {}  # of 48 oracle episodes and the steps after them
    assert not folder.reference.exists()
    assert CheckpointStore(folder.cold_start).steps() == ([steps] if steps else [])
    summary = train(RunFolder.open(folder.path))
    assert not folder.cold_start.exists()
    assert summary["cold_start"]["loss"] == unbroken.summary()["cold_start"]["loss"]
    weights = [(run.reference / "model.safetensors").read_bytes() for run in (folder, unbroken)]
    assert weights[0] == weights[1]


def test_a_run_that_is_stopped_before_it_begins_can_be_resumed(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=1")
    train(folder, lambda: True)
    assert metrics(folder.path) == []
    assert "checksum" in train(RunFolder.open(folder.path))


# Real processes ------------------------------------------------------------------------------------------


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "agent_gym.cli.main", "train", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "random", "COLUMNS": "200"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture
def process_of(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts training commands; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        started.append(start(*arguments))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the process does not get there"
        time.sleep(0.005)


def lines(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_text("utf-8").count("\n") if path.is_file() else 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["iteration", "checkpoint"])
def test_a_killed_run_resumes_to_the_weights_of_an_unbroken_one(
    moment: str,
    unbroken: RunFolder,
    tmp_path: Path,
    process_of: Callable[..., subprocess.Popen[str]],
) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    process = process_of("--resume", str(folder.path))
    if moment == "iteration":
        wait_for(lambda: lines(folder.path) >= 2, process)
        time.sleep(0.05)
    else:
        # Any of them: one is there for some milliseconds only, which a busy machine may sleep through.
        partials = [folder.checkpoints / f".tmp-step-0000000{step}" for step in range(2, 7)]
        wait_for(lambda: any(partial.is_dir() for partial in partials), process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    again = process_of("--resume", str(folder.path))
    output, _ = again.communicate(timeout=240)
    assert again.returncode == 0, output
    assert "Resuming after iteration" in output
    assert_equal_runs(unbroken.path, folder.path)


@pytest.mark.slow
def test_a_run_is_extended_from_the_command_line(
    tmp_path: Path, process_of: Callable[..., subprocess.Popen[str]]
) -> None:
    folder = new_run(tmp_path / "run", "iterations=0")
    train(folder)
    process = process_of("--resume", str(folder.path), "--iterations", "2", "run.keep_checkpoints=1")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert (folder.config().iterations, len(metrics(folder.path))) == (2, 2)
    assert CheckpointStore(folder.checkpoints).steps() == [2]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_iteration_saves_and_exits_0(
    number: signal.Signals,
    unbroken: RunFolder,
    tmp_path: Path,
    process_of: Callable[..., subprocess.Popen[str]],
) -> None:
    folder = new_run(tmp_path / "run", "iterations=6")
    process = process_of("--resume", str(folder.path))
    wait_for(lambda: lines(folder.path) >= 1, process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "Continue with: agent-gym train --resume" in output
    done = lines(folder.path)
    assert 1 <= done < 6
    assert CheckpointStore(folder.checkpoints).steps()[-1] == done
    train(RunFolder.open(folder.path))
    assert_equal_runs(unbroken.path, folder.path)


@pytest.mark.slow
def test_a_second_interrupt_exits_at_once_and_leaves_the_last_checkpoint_whole(
    tmp_path: Path, process_of: Callable[..., subprocess.Popen[str]]
) -> None:
    # One iteration of this run takes long, so that both interrupts fall into it.
    folder = new_run(tmp_path / "run", "iterations=6", "rollout.groups=4000", "rollout.max_parallel=1")
    process = process_of("--resume", str(folder.path))
    wait_for(lambda: (folder.path / "metrics.jsonl").is_file(), process)
    time.sleep(3)  # the file is made just before the iteration
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - asked < 60
    assert process.returncode == 130, output
    assert "press Ctrl-C again" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_the_same_command_gives_the_same_run_in_processes_of_their_own(
    tmp_path: Path, process_of: Callable[..., subprocess.Popen[str]]
) -> None:
    import json

    settings = tmp_path / "small.json"
    settings.write_text(json.dumps(merge(SMALL, ["iterations=2"])), encoding="utf-8")
    for name in ("one", "two"):
        process = process_of("--config", str(settings), "--output", str(tmp_path / name))
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
    assert_equal_runs(tmp_path / "one", tmp_path / "two")

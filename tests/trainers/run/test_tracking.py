"""Metrics on disk: every iteration once, numbers JSON can hold, cut lines left out."""

from __future__ import annotations

import json
from pathlib import Path

from trainers.run.tracking import METRICS_FILE, RunTracker, read_metrics


def log(folder: Path, first: int, last: int, value: float = 1.0) -> None:
    tracker = RunTracker(folder, first)
    for iteration in range(first, last):
        tracker.log(iteration, {"loss/total": value * iteration}, {"update": 0.5})
    tracker.close()


def test_rows_behind_the_point_of_resuming_are_written_again(tmp_path: Path) -> None:
    log(tmp_path, 0, 5)
    log(tmp_path, 3, 6, value=10.0)
    assert [(row["iteration"], row["loss/total"]) for row in read_metrics(tmp_path)] == [
        (0, 0.0), (1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0), (5, 50.0),
    ]  # fmt: skip


def test_a_line_that_a_kill_cut_off_is_left_out_and_repaired(tmp_path: Path) -> None:
    log(tmp_path, 0, 3)
    path = tmp_path / METRICS_FILE
    path.write_text(path.read_text("utf-8")[:-10], encoding="utf-8")
    assert [row["iteration"] for row in read_metrics(tmp_path)] == [0, 1]
    log(tmp_path, 2, 4)
    assert [json.loads(line)["iteration"] for line in path.read_text("utf-8").splitlines()] == [0, 1, 2, 3]


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    log(tmp_path, 1, 2, value=float("nan"))
    (row,) = read_metrics(tmp_path)
    assert row == {"iteration": 1, "loss/total": None, "seconds": {"update": 0.5}}


def test_a_run_without_metrics_has_none(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == []

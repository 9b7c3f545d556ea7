"""Logs of a run: appended, cut at a resume, read whatever happened to their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainers.run.jsonl_log import DamagedLogWarning, JsonLog, read_log


def log_of(path: Path, count: int) -> Path:
    log = JsonLog(path)
    for number in range(count):
        log.append({"iteration": number, "value": number / 2})
    return path


def numbers(path: Path) -> list[int]:
    return [row["iteration"] for row in read_log(path)]


def test_a_resumed_log_keeps_the_rows_before_its_first_iteration(tmp_path: Path) -> None:
    path = log_of(tmp_path / "metrics.jsonl", 5)
    JsonLog(path, before=3).append({"iteration": 3}, {"iteration": 4})
    assert numbers(path) == [0, 1, 2, 3, 4]
    assert "value" not in read_log(path)[-1]


def test_a_last_line_that_a_kill_cut_off_is_left_out_without_a_word(tmp_path: Path) -> None:
    path = log_of(tmp_path / "metrics.jsonl", 3)
    path.write_bytes(path.read_bytes()[:-9])
    assert numbers(path) == [0, 1]
    JsonLog(path, before=2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("damage", ["{broken", "", "[1, 2]", "7", "[" * 100_000, "\0\0\0"])
def test_a_damaged_line_costs_itself_only_is_named_and_the_old_file_stays(tmp_path: Path, damage: str) -> None:
    path = log_of(tmp_path / "metrics.jsonl", 6)
    lines = path.read_text("utf-8").split("\n")
    lines[2] = damage
    path.write_text("\n".join(lines), "utf-8")
    before = path.read_bytes()
    with pytest.warns(DamagedLogWarning, match=r"metrics\.jsonl: 1 line .*line 3\)"):
        assert numbers(path) == [0, 1, 3, 4, 5]
    with pytest.warns(DamagedLogWarning):
        JsonLog(path, before=9)
    assert numbers(path) == [0, 1, 3, 4, 5]
    assert (tmp_path / "metrics.jsonl.damaged").read_bytes() == before

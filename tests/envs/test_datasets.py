"""Copies of published data are compared with what was published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_gym.core.make import known_ids, make_env
from agent_gym.envs.datasets import DATASETS, check, find_dataset
from agent_gym.support.errors import ConfigError, DataError
from tests.data import shared_data

ROOM = "#######\n#@ $ .#\n#######"


def boxoban(folder: Path, rooms: int) -> Path:
    path = folder / "boxoban-levels" / "unfiltered" / "valid" / "000.txt"
    path.parent.mkdir(parents=True)
    path.write_text("\n\n".join(f"; {number}\n{ROOM}" for number in range(rooms)), "utf-8")
    return folder / "boxoban-levels"


def test_a_whole_copy_agrees_and_a_part_of_one_does_not(tmp_path: Path) -> None:
    copy = boxoban(tmp_path, 3)
    data = replace(find_dataset("boxoban"), published={"unfiltered/valid": 3})
    assert [(one.part, one.found, one.agrees) for one in check(data, copy)] == [("unfiltered/valid", 3, True)]
    found = {one.part: one for one in check(find_dataset("boxoban"), copy)}
    assert not any(one.agrees for one in found.values())
    assert (found["hard"].found, found["unfiltered/valid"].published) == (0, 100_000)


def test_copies_are_found_at_their_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENT_GYM_DATA", raising=False)
    data = find_dataset("boxoban")
    assert data.find() is None
    with pytest.raises(DataError, match=r"boxoban-levels.*github.com/google-deepmind"):
        check(data)
    (tmp_path / "elsewhere").mkdir()
    boxoban(tmp_path / "elsewhere", 1)
    monkeypatch.setenv("AGENT_GYM_DATA", str(tmp_path / "elsewhere"))
    assert data.find() == tmp_path / "elsewhere" / "boxoban-levels"
    assert check(data)


def test_unknown_sets_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'alfworld'.*boxoban"):
        find_dataset("alfwrld")


def test_every_set_belongs_to_an_environment_and_one_of_its_arguments() -> None:
    for data in DATASETS:
        assert f"agent_gym/{data.env_id}" in known_ids()
        with pytest.raises(ConfigError) as raised:
            make_env(data.env_id, {f"{data.argument}x": 1})
        assert f"'{data.argument}'" in str(raised.value)


def test_recorded_files_have_the_published_numbers_where_they_are_whole() -> None:
    found = {one.part: one for one in check(find_dataset("searchqa"), shared_data("searchqa"))}
    assert (found["bamboogle test"].found, found["bamboogle test"].agrees) == (125, True)
    assert (found["hotpotqa valid"].found, found["hotpotqa valid"].agrees) == (200, False)  # a part of 7,405

"""The run folder: never overwritten, read back as written."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gym.core.errors import ConfigError, DataError
from tests.trainers.runs import small_config
from tests.trainers.toys import tiny_policy
from trainers.run_folder import RunFolder


def test_settings_are_read_back_equal(tmp_path: Path) -> None:
    config = small_config("seed=4")
    assert RunFolder.create(tmp_path / "a" / "run", config).config() == config
    assert RunFolder.open(tmp_path / "a" / "run").config() == config


def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", small_config())
    folder.update_summary({"before": {}})
    with pytest.raises(ConfigError, match="--resume"):
        RunFolder.create(tmp_path / "run", small_config())
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        RunFolder.create(tmp_path / "file", small_config())


def test_a_folder_in_which_nothing_was_made_is_used_again(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", small_config())
    assert RunFolder.create(tmp_path / "run", small_config("seed=9")).config().seed == 9


def test_what_is_no_run_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"config\.json"):
        RunFolder.open(tmp_path)


def test_the_reference_is_whole_or_not_there_and_the_summary_adds_up(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", small_config())
    policy = tiny_policy()
    folder.save_reference(policy)
    folder.save_reference(policy)
    assert (folder.reference / "model.safetensors").is_file()
    assert [path.name for path in folder.path.glob(".tmp-*")] == []
    folder.update_summary({"a": 1})
    assert folder.update_summary({"b": 2}) == folder.summary() == {"a": 1, "b": 2}

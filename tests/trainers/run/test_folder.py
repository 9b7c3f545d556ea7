"""The run folder: never overwritten, read back as written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.locks import BusyError
from tests.trainers.runs import small_config
from tests.trainers.toys import tiny_policy
from trainers.run.checkpoint import CheckpointStore
from trainers.run.folder import RunFolder, open_run


def test_settings_are_read_back_equal(tmp_path: Path) -> None:
    config = small_config("seed=4")
    assert RunFolder.create(tmp_path / "a" / "run", config).config() == config
    assert RunFolder.open(tmp_path / "a" / "run").config() == config


@pytest.mark.parametrize(("algorithm", "base"), [("hgpo", "added"), ("gigpo", "none")])
def test_a_run_that_knew_one_hgpo_goes_on_by_it(algorithm: str, base: str, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", small_config(f"algorithm={algorithm}"))
    assert folder.config().algorithm.hgpo_base == "none"
    path = folder.path / "config.json"
    values = json.loads(path.read_text("utf-8"))
    del values["algorithm"]["hgpo_base"]
    path.write_text(json.dumps(values), "utf-8")
    assert RunFolder.open(folder.path).config().algorithm.hgpo_base == base


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


def test_what_a_run_relies_on_reaches_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.create(tmp_path / "run", small_config())
    store = CheckpointStore(folder.checkpoints)
    flushed: set[int] = set()
    settled: dict[str, set[int]] = {}  # under a new name, with what had been flushed by then
    honest, rename, replace = os.fsync, os.rename, os.replace

    def fsync(descriptor: int) -> None:
        honest(descriptor)
        flushed.add(os.fstat(descriptor).st_ino)

    def renaming(given: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: str | Path, target: str | Path) -> None:
            settled[Path(target).name] = set(flushed)
            flushed.discard(Path(target).parent.stat().st_ino)
            given(source, target)

        return renamed

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renaming(rename))
    monkeypatch.setattr(os, "replace", renaming(replace))
    folder.save_reference(tiny_policy())
    folder.update_summary({"before": {}})
    store.save(3, model=tiny_policy(), extra={"n": 1})
    store.set_score(3, 0.5)
    kept = [folder.reference, folder.path / "summary.json", folder.checkpoints / "step-00000003"]
    for path in kept:
        parts = [path, *path.rglob("*")] if path.is_dir() else [path]
        late = {part.name for part in parts if part.stat().st_ino not in settled[path.name]}
        assert late <= {"manifest.json"}  # written again with the score
        assert path.parent.stat().st_ino in flushed
    assert (folder.checkpoints / "step-00000003" / "manifest.json").stat().st_ino in settled["manifest.json"]


def test_one_process_trains_in_a_folder_however_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with open_run(path, small_config()) as folder:
        busy, again = r"is being trained by process \d+; .*another --output", small_config("seed=9")
        with pytest.raises(BusyError, match=busy), open_run(path, again):
            raise AssertionError
        with pytest.raises(BusyError, match=r"is being trained by process \d+; wait"), open_run(path, None):
            raise AssertionError
        assert folder.config().seed == small_config().seed
    with open_run(path, None):
        pass
    assert not (path / ".lock").exists()


def test_a_run_folder_that_cannot_be_written_to_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = r"cannot write .*/file/run/config.json: .*/file is a file.*give another place"
    with pytest.raises(DataError, match=said), open_run(tmp_path / "file" / "run", small_config()):
        pass


def test_no_folder_stays_of_a_run_that_failed_before_it_made_anything(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "a"
    with pytest.raises(KeyError), open_run(path, small_config()):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), open_run(path, small_config()) as folder:
        raise KeyError(folder.update_summary({"before": {}}))
    assert RunFolder.open(path).summary() == {"before": {}}
    with pytest.raises(DataError, match="no run folder"), open_run(tmp_path / "b", None):
        raise AssertionError
    assert not (tmp_path / "b").exists()

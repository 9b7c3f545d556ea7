"""Files are read and written whole or not at all, and what stands in the way is named."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_gym.play.episode import EpisodeWriter
from agent_gym.support.errors import DataError
from agent_gym.support.files import make_folder, read_whole, write_whole


def test_a_file_is_replaced_whole_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    assert write_whole(path, "é") == path
    write_whole(path, "new")
    assert path.read_text("utf-8") == "new"
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def test_what_stands_in_the_way_is_named_and_the_file_is_the_one_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(
        DataError, match=r"cannot write .*/file/r\.json: .*/file is a file where a folder is needed"
    ):
        write_whole(tmp_path / "file" / "r.json", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*/folder: it is a folder") as caught:
        write_whole(tmp_path / "folder", "x")
    assert ".tmp-" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    assert make_folder(make_folder(tmp_path / "a" / "b")).is_dir()
    (tmp_path / "file").touch()
    for blocked in (tmp_path / "file", tmp_path / "file" / "more"):
        with pytest.raises(DataError, match=rf"cannot write {blocked}: .*; give "):
            make_folder(blocked)
        with pytest.raises(DataError, match=rf"cannot write {blocked}/e\.jsonl: .*; give "):
            EpisodeWriter(blocked / "e.jsonl")


@pytest.mark.parametrize(("end", "pack"), [("", bytes), (".gz", gzip.compress), (".XZ", lzma.compress)])
def test_a_file_is_read_whole_up_to_a_size(end: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"rows{end}"
    content = b"a row\n" * 500_000
    path.write_bytes(pack(content))
    assert read_whole(path, len(content)) == content
    with pytest.raises(DataError, match=rf"rows{end} holds more than the 2,999,999 bytes"):
        read_whole(path, len(content) - 1)
    with pytest.raises(DataError, match="none cannot be read"):
        read_whole(tmp_path / "none", 1)


@pytest.mark.parametrize(("end", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_no_damage_of_a_packed_file_is_a_raw_exception(
    end: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / f"rows{end}"
    packed = pack(bytes(range(64)) * 2)
    refused = 0
    for place in range(len(packed)):
        for damaged in (packed[:place], packed[:place] + b"\xff" + packed[place + 1 :]):
            path.write_bytes(damaged)
            try:
                read_whole(path, 10_000)
            except DataError:
                refused += 1
    assert refused > len(packed)

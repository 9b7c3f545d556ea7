"""Files are written whole or not at all, and a place that cannot be written to is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gym.core.errors import DataError
from agent_gym.core.files import write_whole


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

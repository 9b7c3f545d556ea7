"""Boxoban folders and community collections are listed the same everywhere, read lazily, and fail by name."""

from __future__ import annotations

import gzip
import lzma
import pickle
from pathlib import Path

import pytest

from agent_gym.envs.sokoban.data.levels import LevelFiles
from agent_gym.envs.sokoban.data.xsb import level_names, parse_levels, split_levels
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.support.errors import DataError, UnknownTaskError
from tests.data import shared_data

_ROOM = "#####\n#@$.#\n#####\n"
_LONG = "######\n#@ $.#\n######\n"


def _boxoban(*levels: str) -> str:
    return "\n".join(f"; {number}\n{level}" for number, level in enumerate(levels))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "boxoban"
    for name in (
        "unfiltered/valid/001.txt",
        "unfiltered/valid/000.txt",
        "medium/train/000.txt",
        "hard/000.txt",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_boxoban(_ROOM, _LONG, _ROOM))
    (root / "medium/train/001.txt.xz").write_bytes(lzma.compress(_boxoban(_LONG).encode()))
    (root / "hard/000.txt.gz").write_bytes(gzip.compress(_boxoban(_LONG).encode()))
    (root / "README.txt").write_text("no level")
    return root


def test_ids_are_sorted_and_do_not_depend_on_the_part_that_is_named(folder: Path) -> None:
    files = LevelFiles(folder)
    ids = list(files)
    assert len(files) == len(ids) == 13
    assert ids[0] == "hard/000#0"
    assert ids[-1] == "unfiltered/valid/001#2"
    assert [files.id_at(index) for index in range(13)] == ids
    assert files.read("medium/train/001#0") == Level.from_xsb(_LONG)
    assert list(LevelFiles(folder / "unfiltered")) == ids[-6:]
    assert list(LevelFiles(folder / "unfiltered/valid/001.txt")) == ids[-3:]
    assert list(LevelFiles(folder / "hard")) == ids[:3]


def test_collections_and_splits_are_selected(folder: Path) -> None:
    files = LevelFiles(folder)
    assert files.splits == ("train", "valid", "")
    assert len(files.select(split="valid")) == 6
    assert list(files.select(collection="hard")) == ["hard/000#0", "hard/000#1", "hard/000#2"]
    with pytest.raises(DataError, match="unfiltered/valid"):
        files.select(split="test")


def test_listing_reads_no_file(folder: Path) -> None:
    (folder / "hard/001.txt").write_text("broken")
    files = LevelFiles(folder)
    assert files.read("hard/000#1") == Level.from_xsb(_LONG)
    with pytest.raises(DataError, match=r"001\.txt: no level found"):
        len(files)


def test_level_files_pickle(folder: Path) -> None:
    files = pickle.loads(pickle.dumps(LevelFiles(folder)))
    assert files.read("hard/000#2") == Level.from_xsb(_ROOM)


def test_unknown_ids_name_near_ones(folder: Path) -> None:
    files = LevelFiles(folder)
    assert "hard/000#1" in files
    assert "hard/000#7" not in files
    with pytest.raises(UnknownTaskError, match="unfiltered/valid/000"):
        files.read("unfiltered/valid/00#1")
    with pytest.raises(UnknownTaskError, match="3 levels, hard/000#0 to hard/000#2"):
        files.read("hard/000#3")
    with pytest.raises(IndexError):
        files.id_at(13)


def test_a_malformed_level_is_named_by_file_level_line_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "set.txt"
    path.write_text(_boxoban(_ROOM, "#####\n#@x.#\n#####\n"))
    files = LevelFiles(path)
    assert files.read("set#0") == Level.from_xsb(_ROOM)
    with pytest.raises(DataError, match=r"set\.txt: level 1, .* line 7: row 2, column 3: unknown symbol 'x'"):
        files.read("set#1")


@pytest.mark.parametrize("name", [".", "missing", "missing.txt"])
def test_a_folder_without_levels_is_named_with_the_layout(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"unfiltered\|medium") as error:
        LevelFiles(tmp_path / name)
    assert str(tmp_path) in str(error.value)


def test_a_damaged_level_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rooms.txt.gz"
    path.write_bytes(gzip.compress(b"x")[:10] + b"\xff" * 20)
    with pytest.raises(DataError, match=r"rooms\.txt\.gz cannot be read"):
        len(LevelFiles(path))


def test_community_collections_have_titles_and_comments() -> None:
    text = f"""A collection by somebody
Author: somebody

; First one

{_ROOM}
Second
{_LONG}Author: me

{_ROOM}Title: Third
Comment: nothing
{_LONG}
"""
    levels = parse_levels(text)
    assert [(level.name, level.title) for level in levels] == [
        ("0", "First one"),
        ("1", "Second"),
        ("2", "Third"),
        ("3", ""),
    ]
    assert [level.level.width for level in levels] == [5, 6, 5, 6]


def test_a_text_without_levels_is_an_error() -> None:
    with pytest.raises(DataError, match="notes: no level found"):
        parse_levels("nothing here", "notes")


def test_real_boxoban_files_hold_a_thousand_levels_each() -> None:
    files = LevelFiles(shared_data("boxoban"))
    assert len(files) == 5000
    assert files.id_at(2017) == "medium/valid/000#17"
    text = shared_data("boxoban/hard/000.txt").read_text()
    assert level_names(text) == [part.name for part in split_levels(text)] == [str(n) for n in range(1000)]
    for part in parse_levels(text, "hard"):
        assert (part.level.height, part.level.width, len(part.level.boxes)) == (10, 10, 4)

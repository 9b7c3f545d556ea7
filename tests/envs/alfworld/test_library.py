"""Data folders: which games are listed, in which order, and what is said when there are none."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from agent_gym.envs.alfworld.data.index import build_index, cache_folder, find_data_root
from agent_gym.envs.alfworld.data.library import GameLibrary
from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.errors import AgentGymWarning, ConfigError, DataError, UnknownTaskError
from tests.envs.alfworld.tiny import content

PLACE = "pick_and_place_simple-Mug-None-Desk-301"
LIGHT = "look_at_obj_in_light-Mug-None-DeskLamp-7"


def add_game(root: Path, task_id: str, annotations: list[str] | None = None, **changes: object) -> Path:
    folder = root / task_id
    folder.mkdir(parents=True)
    (folder / "game.tw-pddl").write_text(json.dumps(content() | changes))
    rows = [{"task_desc": text} for text in annotations or []]
    traj = {"task_type": task_id.split("/")[1].split("-")[0], "turk_annotations": {"anns": rows}}
    (folder / "traj_data.json").write_text(json.dumps(traj))
    return folder / "game.tw-pddl"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data" / "json_2.1.1"
    for task_id in (f"train/{PLACE}/t2", f"train/{PLACE}/t1", f"valid_seen/{LIGHT}/t", f"train/{LIGHT}/t"):
        add_game(root, task_id, ["Put the mug on the desk. ", "mug to desk"])
    return tmp_path / "data"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_games_are_listed_by_name_whatever_the_order_of_creation(data: Path, cache: Path, tmp_path: Path) -> None:
    ids = [entry.task_id for entry in GameLibrary(data, cache=cache).entries]
    assert ids == [f"train/{LIGHT}/t", f"train/{PLACE}/t1", f"train/{PLACE}/t2", f"valid_seen/{LIGHT}/t"]
    for task_id in reversed(ids):
        add_game(tmp_path / "again", task_id)
    assert [entry.task_id for entry in build_index(tmp_path / "again", cache).entries] == ids


def test_movable_sliced_and_unsolvable_games_are_left_out_and_counted(data: Path, cache: Path) -> None:
    root = data / "json_2.1.1" / "train"
    add_game(root.parent, "train/pick_and_place_with_movable_recep-A-B-C-1/t")
    add_game(root.parent, "train/pick_and_place_simple-AppleSliced-None-Desk-1/t")
    for number, solvable in enumerate((False, None)):
        add_game(root.parent, f"train/{PLACE}/u{number}", solvable=solvable)
    library = GameLibrary(data, cache=cache)
    assert len(library.entries) == 4
    assert library.left_out == {"movable or sliced": 2, "not marked solvable": 2}


def test_a_broken_file_is_reported_and_the_others_play(data: Path, cache: Path) -> None:
    path = add_game(data / "json_2.1.1", f"train/{PLACE}/broken")
    path.write_text(path.read_text()[:100])
    with pytest.warns(AgentGymWarning, match=r"1 game files cannot be read and are left out; first: .*broken"):
        library = GameLibrary(data, cache=cache)
    assert [GameState(library.game(entry)).won for entry in library.entries] == [False] * 4


def test_a_game_of_unknown_shape_fails_alone_and_by_name(data: Path, cache: Path) -> None:
    odd = str(content()["pddl_problem"]).replace("(objectType ?o MugType)", "(isClean ?o)")
    add_game(data / "json_2.1.1", f"train/{PLACE}/odd", pddl_problem=odd)
    library = GameLibrary(data, cache=cache)
    with pytest.raises(DataError, match=r"odd.game\.tw-pddl: goal is none of the six"):
        library.game(library.entry(f"train/{PLACE}/odd"))
    assert library.game(library.entry(f"train/{PLACE}/t1")).task_type is TaskType.PLACE


def test_select_filters_by_split_type_and_scene(data: Path, cache: Path) -> None:
    library = GameLibrary(data, cache=cache)
    assert library.splits == {"train": 3, "valid_seen": 1}
    assert [e.task_id for e in library.select("train", task_types=[TaskType.LIGHT])] == [f"train/{LIGHT}/t"]
    assert len(library.select("train", scenes=["301"])) == 2
    with pytest.raises(ConfigError, match=r"no split 'valid_sen'.*did you mean|Did you mean 'valid_seen'"):
        library.select("valid_sen")
    with pytest.raises(ConfigError, match=r"none of the 3 games.*scenes 7, 301"):
        library.select("train", scenes=["12"])


def test_an_unknown_task_id_lists_the_nearest(data: Path, cache: Path) -> None:
    with pytest.raises(UnknownTaskError, match=f"Did you mean 'train/{PLACE}/t[12]'"):
        GameLibrary(data, cache=cache).entry(f"train/{PLACE}/t3")


def test_human_goals_are_read_and_their_absence_is_an_error(data: Path, cache: Path) -> None:
    add_game(data / "json_2.1.1", f"train/{PLACE}/silent")
    (add_game(data / "json_2.1.1", f"train/{PLACE}/bare").parent / "traj_data.json").unlink()
    library = GameLibrary(data, cache=cache)
    found = library.human_goals(library.entry(f"train/{PLACE}/t1"))
    assert found == ("Put the mug on the desk.", "mug to desk")
    for trial, message in (("silent", "no human goal sentence"), ("bare", "cannot read")):
        with pytest.raises(DataError, match=message):
            library.human_goals(library.entry(f"train/{PLACE}/{trial}"))


def test_missing_data_names_the_folder_and_the_remedy(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    for folder, message in (
        (tmp_path / "absent", "is missing"),
        (tmp_path / "other", "found nothing"),
        (tmp_path, "holds no playable ALFWorld game: no <split>/<task>/<trial>/game.tw-pddl"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            GameLibrary(folder, cache=cache)
        assert str(folder) in str(caught.value)
        assert "alfworld-download" in str(caught.value)


def test_only_unplayable_games_are_explained_by_reason(tmp_path: Path, cache: Path) -> None:
    add_game(tmp_path, f"train/{PLACE}/a", solvable=False)
    add_game(tmp_path, f"train/{PLACE}/b").write_text("{")
    with pytest.raises(DataError, match=r"1 not marked solvable; 1 unreadable \(first: .*not whole JSON"):
        GameLibrary(tmp_path, cache=cache)


def test_the_newest_release_folder_is_taken(tmp_path: Path) -> None:
    for release in ("json_2.1.1", "json_2.1.2"):
        (tmp_path / release / "train").mkdir(parents=True)
    assert find_data_root(tmp_path).name == "json_2.1.2"
    assert find_data_root(tmp_path / "json_2.1.1").name == "json_2.1.1"


def test_the_cache_is_used_follows_changes_and_survives_damage(data: Path, cache: Path) -> None:
    first = build_index(data, cache)
    (store,) = cache.iterdir()
    changed = data / "json_2.1.1" / f"train/{PLACE}/t1" / "game.tw-pddl"
    stamp = changed.stat().st_mtime_ns
    # same size and time: taken from the cache, not read
    text = changed.read_text()
    changed.write_text("x" * len(text.encode()))
    os.utime(changed, ns=(stamp, stamp))
    assert build_index(data, cache).entries == first.entries
    # another time: read again
    changed.write_text(json.dumps(json.loads(text) | {"solvable": False}))
    assert len(build_index(data, cache).entries) == 3
    changed.write_text(text)
    os.utime(changed, ns=(stamp, stamp))
    shutil.rmtree(changed.parents[1] / "t2")
    assert len(build_index(data, cache).entries) == 3
    good = json.loads(store.read_text())
    for damage in (
        "",
        "[]",
        '{"version": 1}',
        "\x00",
        json.dumps(good | {"games": {"a": [1]}}),
        json.dumps(good)[:-9],
    ):
        store.write_text(damage)
        assert len(build_index(data, cache).entries) == 3
        assert json.loads(store.read_text()) == good


def test_an_unwritable_cache_is_no_error(data: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert len(build_index(data, blocked).entries) == 4


def test_the_cache_folder_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENT_GYM_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "alfworld"
    monkeypatch.delenv("AGENT_GYM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "agent-gym" / "alfworld"


def test_compiled_games_are_shared_between_libraries_and_threads(data: Path, cache: Path) -> None:
    one, two = GameLibrary(data, cache=cache), GameLibrary(data, cache=cache)
    assert one.game(one.entries[0]) is two.game(two.entries[0])
    intros: list[str] = []

    def play() -> None:
        for entry in one.entries:
            intros.append(GameState(one.game(entry)).reset())

    threads = [threading.Thread(target=play) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(intros) == 32
    assert len(set(intros)) == 1


def test_the_real_split_is_indexed_whole(real_data: Path, cache: Path) -> None:
    library = GameLibrary(real_data, cache=cache)
    assert library.splits == {"train": 200, "valid_seen": 140}
    seen = library.select("valid_seen")
    counts = {task_type: sum(entry.task_type is task_type for entry in seen) for task_type in TaskType}
    assert list(counts.values()) == [35, 13, 27, 16, 25, 24]
    assert all(library.human_goals(entry) for entry in seen)

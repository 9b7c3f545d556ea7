"""Rooms are valid, solvable, seeded by their generator alone, and split by content."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.sokoban.data.draws import Draws
from agent_gym.envs.sokoban.data.generator import RoomSpec, Split, generate_room, room_from_seed, split_of
from agent_gym.envs.sokoban.world.board import Board, Level
from agent_gym.envs.sokoban.world.deadlocks import is_deadlocked
from agent_gym.envs.sokoban.world.solver import solve
from agent_gym.support.errors import ConfigError


def check(level: Level, spec: RoomSpec) -> None:
    assert (level.height, level.width, len(level.boxes)) == (spec.height, spec.width, spec.boxes)
    assert Level.from_xsb(level.to_xsb()) == level
    board = Board(level)
    assert not board.solved
    assert not is_deadlocked(board)


@pytest.mark.parametrize(
    "spec",
    [RoomSpec(6, 6, 1), RoomSpec(6, 6, 2), RoomSpec(7, 7, 2), RoomSpec(8, 8, 3), RoomSpec(10, 10, 4)],
    ids=str,
)
def test_rooms_are_solvable_and_start_with_no_box_on_a_goal(spec: RoomSpec) -> None:
    for seed in range(40):
        level = generate_room(spec, np.random.default_rng(seed))
        check(level, spec)
        assert not level.boxes & level.goals
        assert solve(level).pushes >= 1


def test_crowded_rooms_are_valid_in_bounded_time() -> None:
    spec = RoomSpec(5, 5, 4)
    for seed in range(200):
        level = generate_room(spec, np.random.default_rng(seed))
        check(level, spec)
        assert solve(level).optimal


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_accepted_size_gives_a_room(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(3, 8)), data.draw(st.integers(3, 8))
    if max(height, width) < 5:
        width = 5
    spec = RoomSpec(height, width, data.draw(st.integers(1, (height - 2) * (width - 2) - 2)))
    check(generate_room(spec, np.random.default_rng(data.draw(st.integers(0, 99)))), spec)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"height": 4, "width": 4, "boxes": 1}, "at least 3x5 cells"),
        ({"height": 5, "width": 5, "boxes": 8}, "1 to 7 boxes in a 5x5 room"),
        ({"height": 5, "width": 5, "boxes": 0}, "found boxes=0"),
        ({"height": 60, "width": 5, "boxes": 1}, "at most 50x50"),
        ({"height": 50, "width": 50, "boxes": 41}, "1 to 40 boxes"),
        ({"height": 6, "width": 6, "boxes": 1, "min_pushes": 0}, "min_pushes of at least 1"),
        ({"height": 6, "width": 6, "boxes": 1, "min_pushes": 5, "max_pushes": 4}, "min_pushes=5, max_pushes=4"),
    ],
)
def test_impossible_specifications_are_refused_at_construction(values: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RoomSpec(**values)


def test_difficulty_is_the_fewest_pushes_and_moves_fit_the_limit() -> None:
    spec = RoomSpec(8, 8, 2, min_pushes=8, max_pushes=12, max_moves=40)
    for seed in range(5):
        solution = solve(generate_room(spec, np.random.default_rng(seed)))
        assert 8 <= solution.pushes <= 12
        assert len(solution.moves) <= 40


def test_difficulty_out_of_reach_ends_in_an_error_that_says_what_was_found() -> None:
    with pytest.raises(ConfigError, match=r"min_pushes=30 among 500 rooms: their solutions have 1 to \d+ pushes"):
        generate_room(RoomSpec(6, 6, 1, min_pushes=30), np.random.default_rng(0))


def test_a_split_without_rooms_ends_in_an_error() -> None:
    with pytest.raises(ConfigError, match="3x5 with 1 box of the test split"):
        room_from_seed(RoomSpec(3, 5, 1), "test", 0)
    with pytest.raises(ConfigError, match="train, valid, test, found 'dev'"):
        room_from_seed(RoomSpec(6, 6, 1), "dev", 0)


def test_eight_threads_give_the_serial_rooms() -> None:
    spec = RoomSpec(10, 10, 4)
    serial = [room_from_seed(spec, "train", seed) for seed in range(100, 108)]
    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda seed: room_from_seed(spec, "train", seed), range(100, 108))) == serial


def test_seeds_never_change_their_meaning() -> None:
    keys = {
        (str(split), boxes): room_from_seed(RoomSpec(side, side, boxes), split, seed).content_key()
        for split in Split
        for side, boxes, seed in ((6, 2, 0), (10, 4, 7))
    }
    assert keys == {
        ("train", 2): "9a15a2bea7a97f7f5da0bebd70db78c3",
        ("train", 4): "42dc5eb96e99a0129e633f079d953c83",
        ("valid", 2): "4ea54134f97844442cd908d927e97b2d",
        ("valid", 4): "f5ff9735705497bbeb363ac5120f54cf",
        ("test", 2): "eb94b5460e1317a97960eed1d2d67074",
        ("test", 4): "d79e791e08fe50e974c2198729f9b938",
    }


def test_splits_share_no_room() -> None:
    spec = RoomSpec(6, 6, 1)
    contents = {}
    for split in Split:
        rooms = [room_from_seed(spec, split, seed) for seed in range(100)]
        assert {split_of(room) for room in rooms} == {split}
        contents[split] = {room.content_key() for room in rooms}
    assert not contents[Split.TRAIN] & contents[Split.TEST]
    assert not contents[Split.TRAIN] & contents[Split.VALID]
    assert not contents[Split.VALID] & contents[Split.TEST]


def test_splits_are_equally_difficult() -> None:
    spec = RoomSpec(6, 6, 1)
    pushes = {split: [solve(room_from_seed(spec, split, n)).pushes for n in range(300)] for split in Split}
    means = {split: sum(values) / len(values) for split, values in pushes.items()}
    assert max(means.values()) - min(means.values()) < 0.3  # about three standard errors


def test_seeds_give_different_rooms() -> None:
    rooms = [room_from_seed(RoomSpec(8, 8, 2), "train", seed) for seed in range(50)]
    assert len({room.content_key() for room in rooms}) == 50


def test_global_generators_are_neither_read_nor_touched() -> None:
    def states() -> tuple[object, str]:
        return random.getstate(), str(np.random.get_state())

    random.seed(5)
    np.random.seed(5)
    before = states()
    first = generate_room(RoomSpec(8, 8, 2), np.random.default_rng(3))
    assert states() == before
    random.seed(6)
    np.random.seed(6)
    assert generate_room(RoomSpec(8, 8, 2), np.random.default_rng(3)) == first


def test_draws_are_the_words_of_the_stream() -> None:
    draws = Draws(np.random.Generator(np.random.PCG64(9)))
    words = np.random.PCG64(9).random_raw(300).tolist()
    assert [draws.word() for _ in range(300)] == words


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_draws_stay_in_range_and_shuffles_keep_values(seed: int, count: int) -> None:
    draws = Draws(np.random.default_rng(seed))
    assert all(0 <= draws.below(count) < count for _ in range(20))
    values = list(range(count))
    draws.shuffle(values)
    assert sorted(values) == list(range(count))
    assert len(set(draws.sample(range(20), count))) == count


def test_open_rooms_have_no_inner_walls_and_are_solved_within_their_limit() -> None:
    spec = RoomSpec(6, 7, 1, max_moves=12, open_floor=True)
    rooms = [room_from_seed(spec, "train", seed) for seed in range(60)]
    for room in rooms:
        assert len(room.walls) == 6 * 7 - 4 * 5
        assert len(solve(room).moves) <= 12
    assert len({room.content_key() for room in rooms}) > 40

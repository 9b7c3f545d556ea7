"""XSB text round-trips, malformed levels are named by place, and content keys ignore the eight symmetries."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.envs.sokoban.world.level import Direction, Level, symmetries
from agent_gym.support.errors import DataError


@st.composite
def levels(draw: st.DrawFn, max_side: int = 8, max_boxes: int = 40) -> Level:
    """Closed rooms of any outline, with boxes and goals anywhere inside."""
    height, width = draw(st.integers(4, max_side)), draw(st.integers(4, max_side))
    inner = [row * width + column for row in range(1, height - 1) for column in range(1, width - 1)]
    border = set(range(height * width)) - set(inner)
    walls = border | draw(st.sets(st.sampled_from(inner), max_size=len(inner) - 3))
    free = sorted(set(range(height * width)) - walls)
    player, *others = draw(st.permutations(free))
    count = draw(st.integers(1, max(1, min(max_boxes, len(others) // 2))))
    goals = frozenset(draw(st.permutations(free))[:count])
    return Level(height, width, frozenset(walls), goals, frozenset(others[:count]), player)


@given(levels())
def test_xsb_text_round_trips(level: Level) -> None:
    assert Level.from_xsb(level.to_xsb()) == level
    assert hash(Level.from_xsb(level.to_xsb())) == hash(level)
    assert pickle.loads(pickle.dumps(level)) == level


@given(levels())
def test_symmetric_rooms_share_a_content_key(level: Level) -> None:
    rows = [row.encode() for row in level.to_xsb().split("\n")]
    images = [Level.from_xsb(b"\n".join(image).decode()) for image in symmetries(rows)]
    assert {image.content_key() for image in images} == {level.content_key()}


def test_content_key_ignores_what_lies_outside_the_room() -> None:
    room = Level.from_xsb("#####\n#@$.#\n#####")
    wider = Level.from_xsb("########\n#####  #\n#@$.## #\n########")
    assert room.content_key() == wider.content_key()


def test_content_key_tells_rooms_and_players_apart() -> None:
    first = Level.from_xsb("######\n#@ $.#\n######")
    second = Level.from_xsb("######\n# @$.#\n######")
    third = Level.from_xsb("#######\n#@ $ .#\n#######")
    assert len({level.content_key() for level in (first, second, third)}) == 3


def test_all_symbols_and_ragged_indented_rows_are_read() -> None:
    level = Level.from_xsb("\n    ####\n    #+-#####\n    #_$*  .#\n    #   $###\n    #####\n\n")
    assert level.to_xsb() == "####    \n#+ #####\n# $*  .#\n#   $###\n#####   "
    assert (level.height, level.width, len(level.boxes), len(level.goals)) == (5, 8, 3, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#####\n#@$x#\n#####", "row 2, column 4: unknown symbol 'x'"),
        ("#####\n# $.#\n#####", "exactly one player"),
        ("######\n#@$.@#\n######", "found 2 .row 2, column 2; row 2, column 5"),
        ("#####\n#@ .#\n#####", "at least one box"),
        ("#####\n#@$$#\n# . #\n#####", "2 boxes .* and 1 goals"),
        ("#####\n#@$. \n#####", "row 2, column 5: the room is open"),
        ("", "exactly one player"),
        ("#" * 200 + "\n#@$.#", "at most 128x128 cells, found 2x200"),
    ],
)
def test_malformed_levels_name_the_place_and_the_expectation(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Level.from_xsb(text)


def test_levels_built_by_hand_are_checked_too() -> None:
    with pytest.raises(DataError, match="player at cell 99 is outside"):
        Level(3, 5, frozenset(), frozenset({8}), frozenset({7}), 99)
    with pytest.raises(DataError, match="box inside a wall"):
        Level(3, 5, frozenset({7}), frozenset({8}), frozenset({7}), 6)


def test_directions_have_words() -> None:
    assert [direction.word for direction in Direction] == ["up", "down", "left", "right"]

"""Views of states are remembered, and are those of the state all the same."""

from __future__ import annotations

import random

from agent_gym.envs.sokoban import view as views
from agent_gym.envs.sokoban.text import Symbols
from agent_gym.envs.sokoban.view import view_of
from agent_gym.envs.sokoban.world.board import Board, Direction
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.envs.sokoban.world.solver import is_deadlocked

ROOM = "\n".join(["#######", "#@ $  #", "# $.  #", "#  .  #", "#     #", "#######"])
TURNED = "\n".join(["#######", "#@ $. #", "# $   #", "#  .  #", "#     #", "#######"])


def test_a_remembered_view_is_that_of_the_state_in_every_room_and_symbol_set(monkeypatch):
    monkeypatch.setattr(views, "_known", {})
    monkeypatch.setattr(views, "_REMEMBERED", 40)
    draw = random.Random(0)
    boards = [Board(Level.from_xsb(text)) for text in (ROOM, TURNED)]
    deadlocks = 0
    for _ in range(600):
        board = draw.choice(boards)
        board.push(draw.choice(list(Direction)))
        symbols = draw.choice(list(Symbols))
        view = view_of(board, symbols)
        assert view.xsb == "\n".join(board.rows())
        assert view.shown == (view.xsb if symbols is Symbols.XSB else view.shown)
        assert (view.shown.count("P") + view.shown.count("S") == 1) is (symbols is Symbols.LETTERS)
        assert view.admissible == tuple(way.word for way in Direction if board.effective(way))
        assert view.deadlocked == is_deadlocked(board)
        deadlocks += view.deadlocked
        assert len(views._known) <= 40
    assert 0 < deadlocks < 600

"""What a state of a board looks like, worked out once for states that come again.

The episodes of a group, and repeated plays of a pool of rooms, meet the same states many times. A view is a
function of the state alone, so that remembering it changes nothing but the time.
"""

from __future__ import annotations

from typing import NamedTuple

from agent_gym.envs.sokoban.text import Symbols, in_symbols
from agent_gym.envs.sokoban.world.board import Board, Direction, Level
from agent_gym.envs.sokoban.world.solver import is_deadlocked

_REMEMBERED = 8_192
"""Views kept in a process, about 1 KiB each."""
_WORDS = tuple((direction, direction.word) for direction in Direction)


class View(NamedTuple):
    """What can be said of a state.

    Attributes:
        xsb: The board as XSB text, rows joined by line ends.
        shown: The board in the symbols asked for.
        admissible: Words of the directions whose push would change the board.
        deadlocked: Whether the state is provably without a solution.
    """

    xsb: str
    shown: str
    admissible: tuple[str, ...]
    deadlocked: bool


_known: dict[tuple[Level, int, bytes, Symbols], View] = {}


def view_of(board: Board, symbols: Symbols) -> View:
    """Return the view of a board's state."""
    key = (board.level, board.player, board.cells, symbols)
    view = _known.get(key)
    if view is None:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        xsb = "\n".join(board.rows())
        words = tuple(word for direction, word in _WORDS if board.effective(direction))
        view = _known[key] = View(xsb, in_symbols(xsb, symbols), words, is_deadlocked(board))
    return view

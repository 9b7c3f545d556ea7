"""Boards as text, and text as moves: the observation and the action grammar of Sokoban."""

from __future__ import annotations

import functools
from enum import StrEnum
from typing import NamedTuple

from agent_gym.envs.sokoban.world.board import Board, Direction

SEPARATOR = "||"
"""Between several actions of one turn (RAGEN's separator)."""


class Symbols(StrEnum):
    """Symbol sets for boards."""

    LETTERS = "letters"
    """`#` wall, `_` floor, `O` goal, `X` box, `√` box on goal, `P` player, `S` player on goal: the set that
    published language-model agents saw."""
    XSB = "xsb"
    """The community's: `#` wall, space floor, `.` goal, `$` box, `*` box on goal, `@` player, `+` player on
    goal."""


_FROM_XSB = {
    Symbols.LETTERS: str.maketrans({"#": "#", " ": "_", ".": "O", "$": "X", "*": "√", "@": "P", "+": "S"}),
    Symbols.XSB: str.maketrans({}),
}
_MEANINGS = (
    ("#", "wall"),
    (" ", "floor"),
    (".", "goal"),
    ("$", "box"),
    ("*", "box on goal"),
    ("@", "you"),
    ("+", "you on goal"),
)


@functools.cache
def legend(symbols: Symbols) -> str:
    """Return the line that explains the symbols."""
    table = _FROM_XSB[symbols]
    shown = (f"{'space' if s.translate(table) == ' ' else s.translate(table)} {m}" for s, m in _MEANINGS)
    return "Legend: " + ", ".join(shown) + "."


def in_symbols(xsb: str, symbols: Symbols) -> str:
    """Return a board's XSB text in other symbols."""
    return xsb.translate(_FROM_XSB[symbols])


def coordinates(board: Board) -> str:
    """Return player, boxes and goals as (row, column) lists, counted from 0 at the top left."""
    width = board.level.width

    def places(cells: frozenset[int]) -> str:
        return ", ".join(f"({cell // width}, {cell % width})" for cell in sorted(cells))

    return (
        f"You: {places(frozenset([board.player]))}. Boxes: {places(board.boxes)}. "
        f"Goals: {places(board.level.goals)}."
    )


class Command(NamedTuple):
    """One elementary action: a direction with or without pushing, or no operation (direction None)."""

    direction: Direction | None
    push: bool = True


_COMMANDS: dict[str, Command] = {"no operation": Command(None)}
for _direction in Direction:
    _COMMANDS[_direction.word] = Command(_direction)
    _COMMANDS[f"push {_direction.word}"] = Command(_direction)
    _COMMANDS[f"move {_direction.word}"] = Command(_direction, push=False)

EXPECTED = "up, down, left, right (or push/move with a direction, or no operation)"


def parse_commands(action: str, most: int) -> list[Command] | str:
    """Parse an action of one turn.

    Args:
        action: One command, or several joined by `||`.
        most: Commands accepted in one turn.

    Returns:
        The commands, or a sentence that says what is wrong.
    """
    single = _COMMANDS.get(action)
    if single is not None:
        return [single]
    parts = [part.strip() for part in action.strip().split(SEPARATOR)]
    if len(parts) > most:
        plural = "action is" if most == 1 else "actions are"
        return f"At most {most} {plural} accepted in a turn, got {len(parts)}."
    commands = []
    for part in parts:
        command = _COMMANDS.get(part)
        if command is None:
            shown = part if len(part) <= 40 else part[:37] + "..."
            return f"Unknown action {shown!r}; use {EXPECTED}."
        commands.append(command)
    return commands


def canonical(action: str) -> str:
    """Map lenient spellings (case, full stops, commas between actions) to the exact grammar."""
    text = " ".join(action.lower().split()).rstrip(".!")
    if SEPARATOR not in text:
        text = text.replace(", ", SEPARATOR).replace(",", SEPARATOR)
    return SEPARATOR.join(part.strip().rstrip(".") for part in text.split(SEPARATOR))

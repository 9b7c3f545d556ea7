"""A Sokoban level: walls, goals, boxes and the player's start, with its XSB text form and content key.

Cells are flat indices, `row * width + column`, counted from the top left. A `Level` is immutable and checked
at construction, so everything that plays one can rely on a closed room: no walk and no push leaves the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from hashlib import blake2b
from typing import Any

from agent_gym.support.errors import DataError

MAX_SIDE = 128
"""Most rows or columns of a level."""

WALL, FLOOR, GOAL, BOX, BOX_ON_GOAL, PLAYER, PLAYER_ON_GOAL = "#", " ", ".", "$", "*", "@", "+"
_FLOORS = " -_"
_KNOWN = frozenset("#.$*@+" + _FLOORS)

# Bits of a cell code as kept in `Level.cells` and on the board: free cells are below 2, boxes below 4.
GOAL_BIT, BOX_BIT, WALL_BIT = 1, 2, 4

_CELL_SYMBOLS = {0: FLOOR, GOAL_BIT: GOAL, BOX_BIT: BOX, GOAL_BIT | BOX_BIT: BOX_ON_GOAL, WALL_BIT: WALL}


class Direction(IntEnum):
    """The four directions, in gym-sokoban's order."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3

    @property
    def word(self) -> str:
        """The lower-case name: "up", "down", "left" or "right"."""
        return _WORDS[self]


_WORDS = ("up", "down", "left", "right")


@dataclass(frozen=True)
class Level:
    """An immutable, validated level.

    Attributes:
        height: Number of rows.
        width: Number of columns.
        walls: Flat indices of the wall cells.
        goals: Flat indices of the goal cells.
        boxes: Flat indices of the boxes at the start.
        player: Flat index of the player at the start.

    Raises:
        DataError: A count, a position or the outline of the room is wrong.
    """

    height: int
    width: int
    walls: frozenset[int]
    goals: frozenset[int]
    boxes: frozenset[int]
    player: int

    def __post_init__(self) -> None:
        """Check what every user of a level relies on."""
        _check_size(self.height, self.width)
        if not self.boxes:
            raise DataError("expected at least one box ('$' or '*'), found none")
        size = self.height * self.width
        named: list[tuple[str, Iterable[int]]] = [
            ("wall", self.walls),
            ("goal", self.goals),
            ("box", self.boxes),
        ]
        for name, cells in [*named, ("player", (self.player,))]:
            for cell in sorted(cells):
                if not 0 <= cell < size:
                    raise DataError(f"{name} at cell {cell} is outside the {self.height}x{self.width} grid")
        for name, cells in [*named[1:], ("player", (self.player,))]:
            for cell in sorted(cells):
                if cell in self.walls:
                    raise DataError(f"{self.describe(cell)}: {name} inside a wall")
        if self.player in self.boxes:
            raise DataError(f"{self.describe(self.player)}: the player stands on a box")
        for cell in sorted(self.interior):
            row, column = divmod(cell, self.width)
            if row in (0, self.height - 1) or column in (0, self.width - 1):
                raise DataError(
                    f"{self.describe(cell)}: the room is open, the player can leave the grid here; "
                    "expected a closed outline of walls ('#')"
                )

    def __getstate__(self) -> dict[str, Any]:
        """Leave derived tables out of pickles: the receiver computes them when needed."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @classmethod
    def from_xsb(cls, text: str, *, equal_counts: bool = True) -> Level:
        """Read one level in XSB symbols.

        `#` wall, space, `-` or `_` floor, `.` goal, `$` box, `*` box on goal, `@` player, `+` player on goal.
        Short rows are filled with floor; blank rows and columns around the level are cut off.

        Args:
            text: The rows of one level.
            equal_counts: Whether to insist on as many boxes as goals. The rules work without, the solver
                does not.

        Raises:
            DataError: An unknown symbol (with its row and column, from 1), a wrong number of players, boxes
                or goals, an open room, or a level larger than `MAX_SIDE`.
        """
        rows = text.expandtabs(4).splitlines()
        players = []
        for row, line in enumerate(rows):
            for column, symbol in enumerate(line):
                if symbol not in _KNOWN:
                    raise DataError(
                        f"row {row + 1}, column {column + 1}: unknown symbol {symbol!r}; expected one of "
                        "'#' wall, ' ', '-' or '_' floor, '.' goal, '$' box, '*' box on goal, '@' player, "
                        "'+' player on goal"
                    )
                if symbol in "@+":
                    players.append(f"row {row + 1}, column {column + 1}")
        if len(players) != 1:
            places = f" ({'; '.join(players[:4])})" if players else ""
            raise DataError(f"expected exactly one player ('@' or '+'), found {len(players)}{places}")
        drawn = [
            (row, column) for row, line in enumerate(rows) for column, s in enumerate(line) if s not in _FLOORS
        ]
        top, bottom = drawn[0][0], drawn[-1][0]
        left, right = min(column for _, column in drawn), max(column for _, column in drawn)
        height, width = bottom - top + 1, right - left + 1
        _check_size(height, width)
        found: dict[str, list[int]] = {symbol: [] for symbol in "#.$*@+"}
        for row, column in drawn:
            found[rows[row][column]].append((row - top) * width + column - left)
        goals = frozenset(found["."] + found["*"] + found["+"])
        boxes = frozenset(found["$"] + found["*"])
        if equal_counts and boxes and len(boxes) != len(goals):
            raise DataError(
                f"expected as many boxes as goals, found {len(boxes)} boxes ('$', '*') "
                f"and {len(goals)} goals ('.', '*', '+')"
            )
        return cls(
            height=height,
            width=width,
            walls=frozenset(found["#"]),
            goals=goals,
            boxes=boxes,
            player=(found["@"] + found["+"])[0],
        )

    def to_xsb(self) -> str:
        """Return the level as XSB text: `height` lines of `width` symbols, without a final line break."""
        return "\n".join(rows_of(self.cells, self.width, self.player))

    @cached_property
    def cells(self) -> bytes:
        """Cell codes at the start, `height * width` bytes: sums of `GOAL_BIT`, `BOX_BIT`, `WALL_BIT`."""
        cells = bytearray(self.height * self.width)
        for cell in self.walls:
            cells[cell] = WALL_BIT
        for cell in self.goals:
            cells[cell] |= GOAL_BIT
        for cell in self.boxes:
            cells[cell] |= BOX_BIT
        return bytes(cells)

    @cached_property
    def steps(self) -> tuple[int, int, int, int]:
        """What one step up, down, left or right adds to a flat index (indexed by `Direction`)."""
        return (-self.width, self.width, -1, 1)

    @cached_property
    def interior(self) -> frozenset[int]:
        """Cells that the player could reach if no box stood in the way."""
        row_length, height = self.width, self.height
        seen = {self.player}
        stack = [self.player]
        while stack:
            cell = stack.pop()
            row, column = divmod(cell, row_length)
            near = [cell - row_length] if row > 0 else []
            if row < height - 1:
                near.append(cell + row_length)
            if column > 0:
                near.append(cell - 1)
            if column < row_length - 1:
                near.append(cell + 1)
            for other in near:
                if other not in seen and other not in self.walls:
                    seen.add(other)
                    stack.append(other)
        return frozenset(seen)

    def describe(self, cell: int) -> str:
        """Return "row r, column c" of a flat index, counted from 1."""
        row, column = divmod(cell, self.width)
        return f"row {row + 1}, column {column + 1}"

    def content_key(self) -> str:
        """Return a 32-digit hex key that is equal for rooms equal up to rotation and reflection.

        What lies outside the room does not count: cells that the player can never reach are walls, and rows
        and columns beyond the room are cut off.
        """
        symbols = {cell: _CELL_SYMBOLS[self.cells[cell]] for cell in self.interior | self.goals | self.boxes}
        symbols[self.player] = PLAYER_ON_GOAL if self.player in self.goals else PLAYER
        return canonical_key(symbols, self.width)


def canonical_key(symbols: dict[int, str], width: int) -> str:
    """Return a hex key of a drawing (flat index to symbol, walls elsewhere) up to shift, rotation, reflection."""
    places = {cell: divmod(cell, width) for cell in symbols}
    top, left = min(row for row, _ in places.values()), min(column for _, column in places.values())
    height = max(row for row, _ in places.values()) - top + 1
    across = max(column for _, column in places.values()) - left + 1
    drawing = bytearray(b"#" * (height * across))
    for cell, (row, column) in places.items():
        drawing[(row - top) * across + column - left] = ord(symbols[cell])
    grid = [bytes(drawing[start : start + across]) for start in range(0, len(drawing), across)]
    canonical = min(b"\n".join(image) for image in symmetries(grid))
    return blake2b(canonical, digest_size=16).hexdigest()


def symmetries(rows: list[bytes]) -> Iterable[list[bytes]]:
    """Yield the eight rotations and reflections of a rectangular grid given as rows of bytes."""
    flip: Callable[[list[bytes]], list[bytes]] = lambda grid: [row[::-1] for row in grid]  # noqa: E731
    for grid in (rows, [bytes(column) for column in zip(*rows, strict=True)]):
        yield grid
        yield flip(grid)
        yield grid[::-1]
        yield flip(grid[::-1])


def rows_of(cells: bytes | bytearray, width: int, player: int) -> list[str]:
    """Return XSB rows of a grid of cell codes and the player's cell."""
    symbols = bytes(cells).translate(_TRANSLATION).decode("ascii")
    here = PLAYER_ON_GOAL if cells[player] & GOAL_BIT else PLAYER
    symbols = symbols[:player] + here + symbols[player + 1 :]
    return [symbols[start : start + width] for start in range(0, len(symbols), width)]


_TRANSLATION = bytes(ord(_CELL_SYMBOLS.get(code, "?")) for code in range(256))


def _check_size(height: int, width: int) -> None:
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise DataError(f"expected a level of at most {MAX_SIDE}x{MAX_SIDE} cells, found {height}x{width}")

"""Bitboards and push distances of a level: what search, deadlock detection and room generation share.

A set of cells is one integer with bit `row * width + column`. Because a room is closed, a shift by one step
never carries a cell of the room over an edge of the grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from agent_gym.envs.sokoban.world.board import Board
from agent_gym.envs.sokoban.world.level import BOX_BIT, Level

_BOX_DIGITS = bytes(ord("1") if code & BOX_BIT else ord("0") for code in range(256))


_Sides = tuple[int, int, int, int]


class Geometry:
    """Static tables of a level's walls and goals.

    Attributes:
        width: Cells in a row of the grid.
        steps: What one step adds to a flat index, by `Direction`.
        floor: Bitboard of the cells that the player could reach if there were no boxes.
        goals: Bitboard of the goals on the floor.
        goal_cells: Flat indices of those goals, ascending.
        dead: Bitboard of floor cells from which a lone box can reach no goal, wherever the player is.
    """

    def __init__(self, level: Level) -> None:
        self.width = level.width
        self.steps = level.steps
        self.floor = bitboard(level.interior)
        self.goals = bitboard(level.goals & level.interior)
        self.goal_cells = tuple(bits(self.goals))
        self.dead = self.floor & ~self._pullable()
        self._size = level.height * level.width

    @cached_property
    def distances(self) -> tuple[tuple[int | None, ...], ...]:
        """For each cell, the fewest pushes of a lone box to each of `goal_cells` by some place of the player.

        None where a goal cannot be reached; an empty tuple for cells off the floor.
        """
        sides = {cell: self._player_sides(cell) for cell in bits(self.floor)}
        columns = [self._pull_distances(goal, sides) for goal in self.goal_cells]
        return tuple(
            tuple(column.get(cell) for column in columns) if self.floor >> cell & 1 else ()
            for cell in range(self._size)
        )

    def _pullable(self) -> int:
        """Return the bitboard of cells to which a box can be pulled from a goal, wherever the player is."""
        found = edge = self.goals
        while edge:
            reached = 0
            for step in (1, self.width):
                reached |= edge << step & self.floor >> step
                reached |= edge >> step & self.floor << step
            edge = reached & self.floor & ~found
            found |= edge
        return found

    def _player_sides(self, box: int) -> _Sides:
        """Label the neighbours of a lone box by connected part: 1, 2, ... and 0 for walls."""
        free = self.floor & ~(1 << box)
        labels = [0, 0, 0, 0]
        label = 0
        for direction, step in enumerate(self.steps):
            if labels[direction] or not free >> (box + step) & 1:
                continue
            label += 1
            part = flood(1 << (box + step), free, self.width)
            for other, offset in enumerate(self.steps):
                if part >> (box + offset) & 1:
                    labels[other] = label
        return (labels[0], labels[1], labels[2], labels[3])

    def _pull_distances(self, goal: int, all_sides: dict[int, _Sides]) -> dict[int, int]:
        """Breadth-first search backwards: pull a lone box from a goal, from every side at once."""
        found = {goal: 0}
        frontier = [(goal, label) for label in sorted(set(all_sides[goal])) if label]
        seen = set(frontier)
        pulls = 0
        while frontier:
            pulls += 1
            reached = []
            for box, label in frontier:
                sides = all_sides[box]
                for direction, step in enumerate(self.steps):
                    if sides[direction] != label or not self.floor >> (box + 2 * step) & 1:
                        continue
                    # The player stands on box + step, pulls the box there and ends on box + 2 * step.
                    state = (box + step, all_sides[box + step][direction])
                    if state not in seen:
                        seen.add(state)
                        reached.append(state)
                        found.setdefault(box + step, pulls)
            frontier = reached
        return found


@lru_cache(maxsize=1024)
def geometry_of(level: Level) -> Geometry:
    """Return the tables of a level; those of the levels used last are kept."""
    return Geometry(level)


def bitboard(cells: Iterable[int]) -> int:
    """Return the bitboard of flat indices."""
    board = 0
    for cell in cells:
        board |= 1 << cell
    return board


def bits(board: int) -> Iterator[int]:
    """Yield the flat indices of a bitboard, ascending."""
    while board:
        low = board & -board
        yield low.bit_length() - 1
        board ^= low


def box_bits(board: Board) -> int:
    """Return the bitboard of a board's boxes."""
    return int(board.cells[::-1].translate(_BOX_DIGITS), 2)


def flood(start: int, free: int, width: int) -> int:
    """Return the part of `free` (and `start`) connected with `start`, all bitboards."""
    left = free & ~start
    edge = start
    while edge:
        edge = (edge << 1 | edge >> 1 | edge << width | edge >> width) & left
        left ^= edge
    return (free & ~left) | start

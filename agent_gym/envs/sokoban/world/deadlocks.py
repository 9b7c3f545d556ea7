"""Positions that can never be solved, as far as two sound facts tell: dead squares and frozen boxes.

Both are one-sided: a flagged position has no solution; one that is not flagged may still have none.
"""

from __future__ import annotations

from agent_gym.envs.sokoban.world.board import Board
from agent_gym.envs.sokoban.world.geometry import Geometry, box_bits, geometry_of


def is_deadlocked(board: Board) -> bool:
    """Return whether a box stands where no goal can be reached, or is blocked off its goal for ever."""
    geometry = geometry_of(board.level)
    every = box_bits(board)
    boxes = every & geometry.floor
    # A box outside the room can never be moved.
    if (every ^ boxes) and any(cell not in board.level.goals for cell in board.boxes - board.level.interior):
        return True
    return bool(boxes & geometry.dead) or bool(frozen(geometry, boxes) & ~geometry.goals)


def frozen(geometry: Geometry, boxes: int) -> int:
    """Return the bitboard of boxes that no solution can move any more.

    It is the largest set whose every box is blocked along both axes: by a wall or a box of the set on either
    side, or by dead squares on both sides. The first box of such a set to move would have to be pushed onto a
    wall, a box or a dead square.
    """
    width = geometry.width
    walls = ~geometry.floor
    dead = geometry.dead
    dead_across = (dead << 1) & (dead >> 1)
    dead_along = (dead << width) & (dead >> width)
    stuck = boxes
    while stuck:
        solid = walls | stuck
        across = solid << 1 | solid >> 1 | dead_across
        along = solid << width | solid >> width | dead_along
        still = stuck & across & along
        if still == stuck:
            break
        stuck = still
    return stuck

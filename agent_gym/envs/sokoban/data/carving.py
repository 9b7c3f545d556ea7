"""Floor plans by a random walk, after the room generator of Racaniere et al. 2017 (I2A) and gym-sokoban.

A walker crosses the inside of the grid, changes direction with probability 0.35, and clears a small random
shape around itself at each step, so the floor is connected and the border stays wall.
"""

from __future__ import annotations

from agent_gym.envs.sokoban.data.draws import Draws

_TURN_PERCENT = 35
_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
# Rows and columns cleared around the walker: bars, bends and a square.
_SHAPES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
    ((0, 0), (0, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
)


def walk_length(height: int, width: int) -> int:
    """Return the customary number of steps of the walk, about 1.7 for each row and column."""
    return 17 * (height + width) // 10


def carve(height: int, width: int, steps: int, draws: Draws) -> list[int]:
    """Return the flat indices of the cleared cells, ascending; none lies on the border of the grid."""
    row, column = 1 + draws.below(height - 2), 1 + draws.below(width - 2)
    down, right = draws.choice(_STEPS)
    cleared = set()
    for _ in range(steps):
        if draws.chance(_TURN_PERCENT):
            down, right = draws.choice(_STEPS)
        row = min(max(row + down, 1), height - 2)
        column = min(max(column + right, 1), width - 2)
        for row_offset, column_offset in draws.choice(_SHAPES):
            at_row, at_column = row + row_offset, column + column_offset
            if 0 < at_row < height - 1 and 0 < at_column < width - 1:
                cleared.add(at_row * width + at_column)
    return sorted(cleared)

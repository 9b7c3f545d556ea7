"""Starting positions by playing backwards: boxes begin on the goals and are pulled away.

A position reached by pulls is solvable by construction. As in gym-sokoban, a depth-first search looks for
the one with the greatest (sum of distances between boxes and their goals) x (number of times that another
box was pulled than the time before), here over positions that differ in the boxes or in the part that the
player can reach, in random order and within fixed bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_gym.envs.sokoban.data.draws import Draws
from agent_gym.envs.sokoban.world.geometry import bitboard, bits, flood


@dataclass(frozen=True)
class Start:
    """A starting position.

    Attributes:
        boxes: Flat indices of the boxes.
        player: Flat index of the player, chosen among the cells that it could reach.
        on_goals: Number of boxes that stand on goals.
        score: Displacement times swaps, above 0.
    """

    boxes: frozenset[int]
    player: int
    on_goals: int
    score: int


def reverse_play(
    floor: int, width: int, goals: list[int], player: int, draws: Draws, *, max_states: int, max_pulls: int
) -> Start | None:
    """Search for a starting position far from the solved one.

    Positions with fewer boxes on goals come first, then those with the higher score.

    Args:
        floor: Bitboard of the floor.
        width: Cells in a row of the grid.
        goals: Flat indices of the goals.
        player: Flat index of the player in the solved position.
        draws: Source of randomness.
        max_states: Most positions to visit.
        max_pulls: Greatest depth.

    Returns:
        The best position found, None if no box can be displaced.
    """
    goal_bits = bitboard(goals)
    spots = {cell: divmod(cell, width) for cell in bits(floor)}
    away = [
        {cell: abs(row - spots[goal][0]) + abs(column - spots[goal][1]) for cell, (row, column) in spots.items()}
        for goal in goals
    ]
    best_key = (-len(goals) - 1, 0)
    best: tuple[int, int] | None = None
    seen: set[tuple[int, int]] = set()
    steps = (-width, width, -1, 1)
    # Entries: boxes in the goals' order, player, index of the box pulled last, swaps, displacement, pulls.
    stack: list[tuple[tuple[int, ...], int, int, int, int, int]] = [(tuple(goals), player, -1, 0, 0, 0)]
    while stack and len(seen) < max_states:
        boxes, at, last, swaps, displacement, pulls = stack.pop()
        board = bitboard(boxes)
        free = floor & ~board
        region = flood(1 << at, free, width)
        if (board, region) in seen:
            continue
        seen.add((board, region))
        key = (-(board & goal_bits).bit_count(), swaps * displacement)
        if displacement and key > best_key:
            best_key, best = key, (board, region)
        if pulls == max_pulls:
            continue
        children = []
        for index, box in enumerate(boxes):
            for step in steps:
                here, behind = box + step, box + 2 * step
                if region >> here & 1 and free >> behind & 1:
                    moved = (*boxes[:index], here, *boxes[index + 1 :])
                    further = displacement + away[index][here] - away[index][box]
                    children.append((moved, behind, index, swaps + (index != last), further, pulls + 1))
        draws.shuffle(children)
        stack += children
    if best is None:
        return None
    board, region = best
    return Start(frozenset(bits(board)), draws.choice(list(bits(region))), -best_key[0], best_key[1])

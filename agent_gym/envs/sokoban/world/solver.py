"""A Sokoban solver: A* over pushes, then a greedy search when the optimal one is too long.

States are the set of boxes and the part of the room that the player can reach. The lower bound is the
cheapest assignment of boxes to goals by push distance of a lone box, which is consistent, so that the first
solution found with weight 1 uses the fewest pushes. Positions with a box on a dead square, frozen boxes off
goals or no assignment are dropped. Walks between pushes are shortest paths; the total of moves is not
minimised.

The default budget counts expanded positions, so that the answer is the same on every machine. It is ample for
Boxoban's four boxes; a room of twelve or more may need a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from time import perf_counter

from agent_gym.envs.sokoban.world.assignment import assignment_cost
from agent_gym.envs.sokoban.world.board import Board
from agent_gym.envs.sokoban.world.deadlocks import frozen, is_deadlocked
from agent_gym.envs.sokoban.world.geometry import Geometry, bits, box_bits, flood, geometry_of
from agent_gym.envs.sokoban.world.level import Direction, Level
from agent_gym.support.errors import AgentGymError, ConfigError

__all__ = [
    "Budget",
    "BudgetExceededError",
    "NotSolvedError",
    "Solution",
    "UnsolvableError",
    "is_deadlocked",
    "solve",
]

_GREEDY_WEIGHT = 5
_CHECK_TIME_EVERY = 256


class NotSolvedError(AgentGymError):
    """No solution was found; the subclass says why."""


class UnsolvableError(NotSolvedError):
    """The position has no solution: every reachable position was searched or excluded by a sound fact."""


class BudgetExceededError(NotSolvedError):
    """The search ended before an answer was found."""


@dataclass(frozen=True)
class Budget:
    """When a search gives up.

    Raises ConfigError on negative limits, or when both node limits are 0.

    Attributes:
        nodes: Most positions to expand in the search for the fewest pushes; 0 leaves it out.
        greedy_nodes: Most positions to expand in the greedy search that follows; 0 leaves it out.
        seconds: Wall-clock limit of both together, None for none; with one, answers depend on the machine.
    """

    nodes: int = 30_000
    greedy_nodes: int = 60_000
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.nodes < 0 or self.greedy_nodes < 0 or self.nodes + self.greedy_nodes == 0:
            raise ConfigError(
                f"expected node limits of at least 0 and one above, found nodes={self.nodes}, "
                f"greedy_nodes={self.greedy_nodes}"
            )
        if self.seconds is not None and self.seconds <= 0:
            raise ConfigError(f"expected seconds above 0 or None, found {self.seconds}")


DEFAULT_BUDGET = Budget()


@dataclass(frozen=True)
class Solution:
    """A way to solve a position.

    Attributes:
        moves: Every step of the player, walks and pushes, as directions to push.
        pushes: Number of steps that push a box.
        optimal: No solution has fewer pushes.
        nodes: Positions expanded.
        seconds: Wall-clock time taken.
    """

    moves: tuple[Direction, ...]
    pushes: int
    optimal: bool
    nodes: int
    seconds: float


@dataclass(frozen=True)
class _Outcome:
    """Pushes as (cell of the box, direction) if found; `complete` if everything reachable was searched."""

    pushes: list[tuple[int, int]] | None
    nodes: int
    complete: bool


def solve(position: Level | Board, budget: Budget = DEFAULT_BUDGET) -> Solution:
    """Solve a level, or a board from its current state.

    Args:
        position: What to solve; a board is not changed.
        budget: When to give up.

    Raises:
        UnsolvableError: There is no solution.
        BudgetExceededError: None was found within the budget.
        ConfigError: The level has not as many boxes as goals.
    """
    board = Board(position) if isinstance(position, Level) else position
    started = perf_counter()
    if board.n_boxes != board.n_goals:
        raise ConfigError(
            f"expected as many boxes as goals to solve, found {board.n_boxes} boxes and {board.n_goals} goals"
        )
    if board.solved:
        return Solution((), 0, True, 0, perf_counter() - started)
    if is_deadlocked(board):
        raise UnsolvableError("the position is deadlocked: a box stands on a dead square or is blocked for ever")
    deadline = None if budget.seconds is None else started + budget.seconds
    geometry = geometry_of(board.level)
    nodes = 0
    for weight, limit in ((1, budget.nodes), (_GREEDY_WEIGHT, budget.greedy_nodes)):
        if not limit:
            continue
        outcome = _search(geometry, box_bits(board), board.player, weight=weight, limit=limit, deadline=deadline)
        nodes += outcome.nodes
        if outcome.pushes is not None:
            moves = _walk_and_push(geometry, board, outcome.pushes)
            return Solution(moves, len(outcome.pushes), weight == 1, nodes, perf_counter() - started)
        if outcome.complete:
            raise UnsolvableError(f"the position has no solution ({nodes:,} positions searched)")
    raise BudgetExceededError(
        f"not solved within the budget: {nodes:,} positions in {perf_counter() - started:.1f} s "
        f"(nodes={budget.nodes:,}, greedy_nodes={budget.greedy_nodes:,}, seconds={budget.seconds}); "
        "raise a limit of Budget"
    )


def _search(
    geometry: Geometry, boxes: int, player: int, *, weight: int, limit: int, deadline: float | None
) -> _Outcome:
    width, floor, dead, goals = geometry.width, geometry.floor, geometry.dead, geometry.goals
    boxes &= floor
    bounds: dict[int, int | None] = {}
    start = _bound(geometry, boxes)
    if start is None:
        return _Outcome(None, 0, True)
    # Entries: priority, bound, newest first, boxes, player's bit, pushes so far, index of the parent, push.
    heap: list[tuple[int, int, int, int, int, int, int, tuple[int, int]]] = [
        (weight * start, start, 0, boxes, 1 << player, 0, -1, (0, 0))
    ]
    fewest: dict[tuple[int, int], int] = {}
    closed: set[tuple[int, int]] = set()
    trace: list[tuple[int, tuple[int, int]]] = []
    serial = 0
    directions = tuple(enumerate(geometry.steps))
    while heap:
        _, _, _, boxes, at, done, parent, push = heappop(heap)
        region = flood(at, floor & ~boxes, width)
        key = (boxes, region & -region)
        if key in closed:
            continue
        closed.add(key)
        here = len(trace)
        trace.append((parent, push))
        if boxes == goals:
            return _Outcome(_pushes_to(trace, here), here + 1, False)
        if here + 1 >= limit or (
            deadline is not None and here % _CHECK_TIME_EVERY == 0 and perf_counter() > deadline
        ):
            return _Outcome(None, here + 1, False)
        room = floor & ~boxes & ~dead
        done += 1
        for direction, step in directions:
            if step > 0:
                movable = boxes & region << step & room >> step
            else:
                movable = boxes & region >> -step & room << -step
            while movable:
                box = movable & -movable
                movable ^= box
                after = boxes ^ box | (box << step if step > 0 else box >> -step)
                if after in bounds:
                    left = bounds[after]
                else:
                    left = bounds[after] = None if frozen(geometry, after) & ~goals else _bound(geometry, after)
                if left is None:
                    continue
                state = (after, box)
                if fewest.get(state, done + 1) <= done:
                    continue
                fewest[state] = done
                serial -= 1
                push = box.bit_length() - 1, direction
                heappush(heap, (done + weight * left, left, serial, after, box, done, here, push))
    return _Outcome(None, len(trace), True)


def _bound(geometry: Geometry, boxes: int) -> int | None:
    distances = geometry.distances
    return assignment_cost([distances[cell] for cell in bits(boxes)])


def _pushes_to(trace: list[tuple[int, tuple[int, int]]], last: int) -> list[tuple[int, int]]:
    pushes = []
    while last > 0:
        last, push = trace[last][0], trace[last][1]
        pushes.append(push)
    return pushes[::-1]


def _walk_and_push(geometry: Geometry, board: Board, pushes: list[tuple[int, int]]) -> tuple[Direction, ...]:
    """Join pushes by shortest walks."""
    moves: list[Direction] = []
    boxes = box_bits(board)
    player = board.player
    for box, direction in pushes:
        step = geometry.steps[direction]
        moves += _walk(geometry, boxes, player, box - step)
        moves.append(Direction(direction))
        boxes ^= 1 << box | 1 << (box + step)
        player = box
    return tuple(moves)


def _walk(geometry: Geometry, boxes: int, start: int, end: int) -> list[Direction]:
    """Return a shortest walk by breadth-first search from the end."""
    free = geometry.floor & ~boxes
    toward: dict[int, Direction | None] = {end: None}
    frontier = [end]
    while start not in toward:
        reached = []
        for cell in frontier:
            for direction in Direction:
                other = cell - geometry.steps[direction]
                if other not in toward and free >> other & 1:
                    toward[other] = direction
                    reached.append(other)
        frontier = reached
    walk = []
    while (step := toward[start]) is not None:
        walk.append(step)
        start += geometry.steps[step]
    return walk

"""The solver finds the fewest pushes, its moves win, and it tells unsolvable from out of budget."""

from __future__ import annotations

from collections import deque
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.sokoban.data.levels import LevelFiles
from agent_gym.envs.sokoban.world.assignment import _by_subsets, _hungarian
from agent_gym.envs.sokoban.world.board import Board, Direction, Level
from agent_gym.envs.sokoban.world.deadlocks import is_deadlocked
from agent_gym.envs.sokoban.world.solver import (
    Budget,
    BudgetExceededError,
    NotSolvedError,
    Solution,
    UnsolvableError,
    solve,
)
from agent_gym.support.errors import ConfigError
from tests.data import shared_data
from tests.envs.sokoban.test_level import levels


def fewest_pushes(level: Level) -> int | None:
    """0-1 breadth-first search over boards, with no pruning at all."""
    queue = deque([(0, Board(level))])
    seen = set()
    while queue:
        pushes, board = queue.popleft()
        key = (board.cells, board.player)
        if key in seen:
            continue
        seen.add(key)
        if board.solved:
            return pushes
        for direction in Direction:
            after = board.copy()
            move = after.push(direction)
            if move.pushed:
                queue.append((pushes + 1, after))
            elif move.moved:
                queue.appendleft((pushes, after))
    return None


def play(level: Level, solution: Solution) -> None:
    """Check that the moves win with as many pushes as said, and that no position on the way is flagged."""
    board = Board(level)
    pushes = 0
    for direction in solution.moves:
        assert not board.solved
        assert not is_deadlocked(board)
        move = board.push(direction)
        assert move.moved
        pushes += move.pushed
    assert board.solved
    assert pushes == solution.pushes


@given(levels(max_side=6, max_boxes=3))
@settings(max_examples=150, deadline=None)
def test_pushes_are_the_fewest_and_unsolvable_rooms_are_recognised(level: Level) -> None:
    expected = fewest_pushes(level)
    if expected is None:
        with pytest.raises(UnsolvableError):
            solve(level)
    else:
        solution = solve(level)
        assert (solution.pushes, solution.optimal) == (expected, True)
        play(level, solution)
        greedy = solve(level, Budget(nodes=0))
        assert greedy.pushes >= expected
        play(level, greedy)


@given(levels(max_side=6, max_boxes=3))
@settings(max_examples=150, deadline=None)
def test_flagged_deadlocks_have_no_solution(level: Level) -> None:
    if is_deadlocked(Board(level)):
        assert fewest_pushes(level) is None


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("#####\n#$  #\n# @.#\n#####", True),  # corner
        ("######\n#@   #\n#  $.#\n#    #\n######", False),
        ("#######\n#  $  #\n#  @ .#\n#     #\n#######", True),  # along a wall without goals
        ("#######\n#  $$ #\n#  @  #\n#  .. #\n#######", True),  # two boxes frozen at a wall
        ("######\n#$$@ #\n#$$..#\n#  ..#\n######", True),  # square of boxes
        ("######\n#**@ #\n#**$.#\n#    #\n######", False),  # square of boxes, all on goals
    ],
)
def test_dead_squares_and_frozen_boxes_are_flagged(text: str, flagged: bool) -> None:
    assert is_deadlocked(Board(Level.from_xsb(text))) is flagged


def test_a_board_is_solved_from_its_current_state() -> None:
    level = Level.from_xsb("########\n#@ $  .#\n########")
    board = Board(level)
    board.push(Direction.RIGHT)
    before = board.copy()
    solution = solve(board)
    assert (len(solution.moves), solution.pushes) == (3, 3)
    assert board == before
    for direction in solution.moves:
        board.push(direction)
    assert solve(board).moves == ()


def test_out_of_budget_is_not_unsolvable() -> None:
    level = Level.from_xsb("########\n#  .   #\n# $@$$ #\n#.    .#\n#      #\n########")
    assert solve(level).optimal
    with pytest.raises(BudgetExceededError, match=r"nodes=1\b.* raise a limit"):
        solve(level, Budget(nodes=1, greedy_nodes=1))
    with pytest.raises(BudgetExceededError):
        solve(level, Budget(seconds=1e-9))
    with pytest.raises(UnsolvableError):
        solve(Level.from_xsb("########\n#@ $#  #\n#   # .#\n########"))
    assert issubclass(UnsolvableError, NotSolvedError)
    assert issubclass(BudgetExceededError, NotSolvedError)


def test_greedy_search_wins_when_the_optimal_one_runs_out() -> None:
    level = Level.from_xsb("########\n#  .   #\n# $@$$ #\n#.    .#\n#      #\n########")
    solution = solve(level, Budget(nodes=3))
    assert not solution.optimal
    play(level, solution)


def test_wrong_budgets_and_unequal_counts_are_refused() -> None:
    with pytest.raises(ConfigError, match="nodes=-1"):
        Budget(nodes=-1)
    with pytest.raises(ConfigError, match="seconds above 0"):
        Budget(seconds=0)
    with pytest.raises(ConfigError, match="1 boxes and 2 goals"):
        solve(Level.from_xsb("######\n#@$..#\n######", equal_counts=False))


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=n, max_size=n), min_size=n, max_size=n
        )
    )
)
def test_assignments_are_the_cheapest(costs: list[list[int | None]]) -> None:
    totals = []
    for order in permutations(range(len(costs))):
        chosen = [costs[row][column] for row, column in enumerate(order)]
        if None not in chosen:
            totals.append(sum(cost for cost in chosen if cost is not None))
    expected = min(totals, default=None)
    assert _by_subsets(costs) == expected
    assert _hungarian(costs) == expected


def _solve_file(path: str, every: int) -> None:
    files = LevelFiles(shared_data(path))
    for index in range(0, len(files), every):
        level = files.read(files.id_at(index))
        play(level, solve(level))


@pytest.mark.parametrize("path", ["unfiltered/valid", "medium/valid", "hard"])
def test_a_sample_of_boxoban_is_solved(path: str) -> None:
    _solve_file(f"boxoban/{path}/000.txt", 20)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["unfiltered/valid", "medium/valid", "hard"])
def test_every_boxoban_level_at_hand_is_solved(path: str) -> None:
    _solve_file(f"boxoban/{path}/000.txt", 1)

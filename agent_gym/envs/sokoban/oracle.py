"""An expert that follows the solver's plan and plans anew when somebody else has moved."""

from __future__ import annotations

from agent_gym.envs.sokoban.world.board import Board, Direction
from agent_gym.envs.sokoban.world.solver import Budget, solve

_State = tuple[bytes, int]


class SokobanOracle:
    """Gives the next moves of a solution from any state of a board.

    Args:
        budget: Solver budget; the solver's default when None.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self._plan: tuple[Direction, ...] = ()
        self._position: dict[_State, int] = {}  # state on the plan's way -> index of its next move

    def next_moves(self, board: Board, most: int = 1) -> tuple[Direction, ...]:
        """Return the next moves, one to `most` of them, of a solution from the board's state.

        Raises:
            NotSolvedError: There is no solution from here, or none within the budget.
        """
        state = (board.cells, board.player)
        if state not in self._position:
            self._make_plan(board)
        start = self._position[state]
        return self._plan[start : start + most]

    def _make_plan(self, board: Board) -> None:
        solution = solve(board) if self._budget is None else solve(board, self._budget)
        self._plan = tuple(solution.moves)
        self._position = {}
        ahead = board.copy()
        for index, move in enumerate(self._plan):
            self._position[ahead.cells, ahead.player] = index
            ahead.push(move)

    def __deepcopy__(self, memo: dict[int, object]) -> SokobanOracle:
        other = SokobanOracle(self._budget)
        other._plan, other._position = self._plan, self._position  # replaced as a whole, never changed
        return other

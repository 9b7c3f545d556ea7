"""The rules of Sokoban as gym-sokoban plays and rewards them, on a mutable board.

*push D* pushes the box ahead if the cell behind it is free, otherwise walks if the cell ahead is free;
*move D* never pushes. Rewards are gym-sokoban's, to the last bit: -0.1 a step, +1 or -1 when more or
fewer boxes stand on goals than after the step before, +10 when every goal carries a box. A new board has
counted no box yet, so boxes that start on goals are rewarded on the first step, whatever it is. Step
limits belong to the environment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from agent_gym.envs.sokoban.world.level import BOX_BIT, Direction, Level, rows_of

__all__ = [
    "REWARD_FEWER",
    "REWARD_MORE",
    "REWARD_SOLVED",
    "REWARD_STEP",
    "Board",
    "Direction",
    "Level",
    "Move",
]

REWARD_STEP = -0.1
REWARD_MORE = 1.0
REWARD_FEWER = -1.0
REWARD_SOLVED = 10.0


class Move(NamedTuple):
    """What one step did.

    Attributes:
        moved: The player changed its cell.
        pushed: A box changed its cell.
        reward: gym-sokoban's reward of this step.
        solved: Every goal carries a box after the step.
    """

    moved: bool
    pushed: bool
    reward: float
    solved: bool


# The most frequent outcomes, ready-made.
_STUCK = Move(False, False, REWARD_STEP, False)
_WALKED = Move(True, False, REWARD_STEP, False)
_PUSHED = Move(True, True, REWARD_STEP, False)


class Board:
    """A level in play.

    Args:
        level: The level to start from; shared, never changed.

    Attributes:
        level: The level that the board started from.
        player: Flat index of the player's cell.
        n_boxes: Number of boxes.
        n_goals: Number of goals.
        boxes_on_goals: Number of boxes that stand on goals now.
    """

    __slots__ = ("_cells", "_counted", "_steps", "boxes_on_goals", "level", "n_boxes", "n_goals", "player")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.player = level.player
        self.n_boxes = len(level.boxes)
        self.n_goals = len(level.goals)
        self.boxes_on_goals = len(level.boxes & level.goals)
        self._cells = bytearray(level.cells)
        self._steps = level.steps
        # gym-sokoban counts boxes minus uncovered goals, from 0; this is that 0 in terms of covered goals.
        self._counted = self.n_goals - self.n_boxes

    def push(self, direction: int) -> Move:
        """Push the box ahead if it can move, else walk if the cell ahead is free, else stay."""
        cells = self._cells
        step = self._steps[direction]
        ahead = self.player + step
        cell = cells[ahead]
        if cell < 2:
            self.player = ahead
            if self._counted == self.boxes_on_goals < self.n_goals:
                return _WALKED
            return self._outcome(True, False)
        if cell < 4:
            beyond = ahead + step
            target = cells[beyond]
            if target < 2:
                left = cell - BOX_BIT
                cells[ahead] = left
                cells[beyond] = target + BOX_BIT
                self.player = ahead
                # Goal cells have code 1 when free, so the difference is the change of the count.
                self.boxes_on_goals += target - left
                if self._counted == self.boxes_on_goals < self.n_goals:
                    return _PUSHED
                return self._outcome(True, True)
        return self.noop()

    def move(self, direction: int) -> Move:
        """Walk if the cell ahead is free; never push."""
        ahead = self.player + self._steps[direction]
        if self._cells[ahead] < 2:
            self.player = ahead
            return self._outcome(True, False)
        return self.noop()

    def noop(self) -> Move:
        """Let one step pass: rewarded like any other."""
        if self._counted == self.boxes_on_goals < self.n_goals:
            return _STUCK
        return self._outcome(False, False)

    def effective(self, direction: int) -> bool:
        """Return whether `push(direction)` would change the board."""
        step = self._steps[direction]
        ahead = self.player + step
        cell = self._cells[ahead]
        return cell < 2 or (cell < 4 and self._cells[ahead + step] < 2)

    @property
    def solved(self) -> bool:
        """Whether every goal carries a box."""
        return self.boxes_on_goals == self.n_goals

    @property
    def boxes(self) -> frozenset[int]:
        """Flat indices of the boxes now."""
        return frozenset(cell for cell, code in enumerate(self._cells) if code & BOX_BIT)

    @property
    def cells(self) -> bytes:
        """Cell codes now, `height * width` bytes (see `Level.cells`)."""
        return bytes(self._cells)

    def rows(self) -> list[str]:
        """Return the board as XSB rows, `height` strings of `width` symbols."""
        return rows_of(self._cells, self.level.width, self.player)

    def copy(self) -> Board:
        """Return an independent board in the same state, sharing the level."""
        other = Board.__new__(Board)
        other.level = self.level
        other.player = self.player
        other.n_boxes = self.n_boxes
        other.n_goals = self.n_goals
        other.boxes_on_goals = self.boxes_on_goals
        other._cells = self._cells[:]
        other._steps = self._steps
        other._counted = self._counted
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Board:
        return self.copy()

    def __eq__(self, other: object) -> bool:
        """Boards are equal when they hold the same level, positions and reward state."""
        if not isinstance(other, Board):
            return NotImplemented
        mine = (self._cells, self.player, self._counted, self.level)
        return mine == (other._cells, other.player, other._counted, other.level)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Board({'/'.join(self.rows())})"

    def _outcome(self, moved: bool, pushed: bool) -> Move:
        reward = REWARD_STEP
        count = self.boxes_on_goals
        if count > self._counted:
            reward += REWARD_MORE
        elif count < self._counted:
            reward += REWARD_FEWER
        self._counted = count
        solved = count == self.n_goals
        if solved:
            reward += REWARD_SOLVED
        return Move(moved, pushed, reward, solved)

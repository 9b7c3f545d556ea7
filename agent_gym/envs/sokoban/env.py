"""Sokoban as a text environment."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.rendering import HumanWindow
from agent_gym.core.tasks import Task, TaskSet
from agent_gym.envs.sokoban.data.generator import RoomSpec
from agent_gym.envs.sokoban.oracle import SokobanOracle
from agent_gym.envs.sokoban.render import render_rgb
from agent_gym.envs.sokoban.tasks import GENERATED, choose_tasks
from agent_gym.envs.sokoban.text import (
    SEPARATOR,
    Symbols,
    canonical,
    coordinates,
    legend,
    parse_commands,
)
from agent_gym.envs.sokoban.view import View, view_of
from agent_gym.envs.sokoban.world.board import REWARD_STEP, Board
from agent_gym.envs.sokoban.world.level import MAX_SIDE, Level
from agent_gym.support.arguments import checked
from agent_gym.support.checks import check_choice
from agent_gym.support.errors import ConfigError, DataError

_GOAL = "Push every box onto a goal."
_TILE = 48  # pixels
_MOST_WORDS = 2_048  # characters of the legend and of a reason
_MOST_BOARD = MAX_SIDE * (MAX_SIDE + 1)
_MOST_POSITIONS = 2 * MAX_SIDE**2 * len("(127, 127), ")  # boxes and goals on every cell


@lru_cache(maxsize=4_096)
def _level(xsb: str) -> Level:
    return Level.from_xsb(xsb)


class Difficulty(NamedTuple):
    """Defaults of a named difficulty: rooms whose solution, as the solver finds it, fits the turn limit."""

    height: int
    width: int
    boxes: int
    turns: int


BOXOBAN = "boxoban"
DIFFICULTIES = {
    "6x6-1": Difficulty(6, 6, 1, 15),
    "6x6-2": Difficulty(6, 6, 2, 30),
    "7x7-2": Difficulty(7, 7, 2, 40),
    "8x8-3": Difficulty(8, 8, 3, 80),
    "10x10-4": Difficulty(10, 10, 4, 120),
    BOXOBAN: Difficulty(10, 10, 4, 200),
}


class SokobanEnv(TextEnv):
    """Push every box onto a goal in as few turns as possible.

    ## Description
    The rules and rewards are those of gym-sokoban 0.0.6 on any level: rooms generated from a seed, Boxoban
    folders (github.com/google-deepmind/boxoban-levels), files and strings in XSB notation.

    ## Action Space
    `UnicodeText`. `up`, `down`, `left`, `right` push the box ahead if it can move and walk otherwise;
    `push up` is the same as `up`; `move up` walks and never pushes; `no operation` waits. With
    `max_actions_per_turn=n`, up to n of them joined by `||` make one turn; they are carried out in order
    until the room is solved. Walking into a wall is accepted, costs a turn and changes nothing, so it is
    valid but not among `admissible_actions`.

    ## Observation Space
    `UnicodeText`: a legend and the board, one line a row. `symbols="letters"` (default) or `"xsb"`;
    `coordinates=True` adds the positions of player, boxes and goals as (row, column); `legend=False` leaves
    the legend out. An action that is not accepted puts a sentence with the reason before the board.

    ## Rewards
    gym-sokoban's: -0.1 a step, +1 when a box comes onto a goal and -1 when one leaves it (a box that starts
    on a goal counts on the first step), +10 when the room is solved. A rejected turn costs a step, -0.1.
    Success is `info["success"]`; never infer it from the reward.

    ## Starting State
    The task's level. Splits of the sources:

    | levels | splits | sizes |
    |---|---|---|
    | `"generated"` | train, valid, test | 2**31, 10,000, 10,000; disjoint by content up to rotation and mirroring |
    | Boxoban folder | train, valid, test, all | as in the folder; "hard" has no splits and is in "all" only |
    | other files, lists, "hard" alone | all (default); train, valid, test | all; about 80, 10, 10 per cent |

    Copies of a room, rotated and mirrored ones too, belong to one split.

    ## Episode End
    Terminated when solved. Truncated after `max_turns` turns (default 15 for rooms of 6x6 with one box, as in
    published agents; the named ids set their own).

    ## Information
    Beside the keys of `StepInfo`: `sokoban/boxes_on_goals`, `sokoban/deadlocked` (provably unsolvable from
    here; absence proves nothing), `sokoban/moved` and `sokoban/pushed` (the last turn moved the player, a
    box), `sokoban/board` (the board alone, in the symbols chosen).

    ## Arguments

    Args:
        split: Split name; None is "train" where the levels have splits, else "all".
        levels: "generated", a path (also looked up below `AGENT_GYM_DATA`) or a list of XSB strings.
        difficulty: Row of `DIFFICULTIES` that gives the defaults of `size`, `boxes`, `max_moves` and
            `max_turns`: "6x6-1" (default), "6x6-2", "7x7-2", "8x8-3", "10x10-4", "boxoban".
        size: (height, width) of generated rooms, border walls included.
        boxes: Boxes of generated rooms.
        pushes: (least, most) optimal pushes of generated rooms; None leaves a side open.
        max_moves: Most moves of the solver's solution of generated rooms, so that a turn limit fits them.
        open_floor: Generated rooms without inner walls, with goals, boxes and player at random places.
        collection: "unfiltered", "medium" or "hard" of a Boxoban folder; None takes all that have the split.
        tasks: A TaskSet, a list of Task or a task file; excludes `split` and the level arguments.
        max_turns: Turn limit; None is that of the difficulty, 200 for levels that are not generated.
        max_actions_per_turn: Commands accepted in one turn.
        symbols: "letters" or "xsb".
        legend: Whether observations begin with the legend.
        coordinates: Whether observations end with positions.
        render_mode: "ansi", "rgb_array", "human" or None.
        invalid_action: "continue", "terminate" or "raise"; see `TextEnv`.
        anchor: "state" or "observation"; see `TextEnv`.

    Raises:
        ConfigError: An argument is out of range, or rooms of that size cannot hold the boxes.
        DataError: Level files are missing or malformed.

    ## Version History
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array", "human"], "render_fps": 6}  # noqa: RUF012
    name: ClassVar[str] = "sokoban"
    default_max_turns: ClassVar[int] = 15
    default_difficulty: ClassVar[str] = "6x6-1"
    """Row of `DIFFICULTIES` used when none is named."""
    prompt_folder: ClassVar[Path] = Path(__file__).parent
    idle_reward = REWARD_STEP

    # the running episode
    _board: Board | None = None
    _moved = _pushed = False
    _note = ""
    """Why the last action was rejected."""
    _view = View("", "", (), False)
    _window: HumanWindow | None = None

    @checked
    def __init__(
        self,
        *,
        split: str | None = None,
        levels: str | Path | Sequence[str] | None = None,
        difficulty: str | None = None,
        size: tuple[int, int] | None = None,
        boxes: int | None = None,
        pushes: tuple[int | None, int | None] | None = None,
        max_moves: int | None = None,
        open_floor: bool | None = None,
        collection: str | None = None,
        tasks: TaskSet | Sequence[Task] | str | Path | None = None,
        max_turns: int | None = None,
        max_actions_per_turn: int = 1,
        symbols: str = Symbols.LETTERS,
        legend: bool = True,
        coordinates: bool = False,
        render_mode: str | None = None,
        invalid_action: str = "continue",
        anchor: str = "state",
    ) -> None:
        data = {"levels": levels, "size": size, "boxes": boxes, "pushes": pushes, "max_moves": max_moves}
        data |= {"open_floor": open_floor, "collection": collection}
        given_levels = levels is not None and not (isinstance(levels, str) and levels == GENERATED)
        # Levels from elsewhere may be large: unless a difficulty is named, they get the longest limit.
        usual = BOXOBAN if given_levels else self.default_difficulty
        row = check_choice("difficulty", DIFFICULTIES, difficulty or usual)
        max_turns = row.turns if max_turns is None else max_turns
        chosen = resolve_tasks(type(self), tasks, split, data)
        if chosen is None:
            height, width = size or (row.height, row.width)
            least, most = pushes or (None, None)
            if size is None and boxes is None and max_moves is None:
                max_moves = row.turns  # rooms of a named difficulty fit its turn limit
            spec = RoomSpec(
                height,
                width,
                row.boxes if boxes is None else boxes,
                min_pushes=least,
                max_pushes=most,
                max_moves=max_moves,
                open_floor=bool(open_floor),
            )
            chosen = choose_tasks(GENERATED if levels is None else levels, split, spec, collection)
        super().__init__(
            chosen,
            max_turns=max_turns,
            render_mode=render_mode,
            invalid_action=invalid_action,
            anchor=anchor,
            max_observation_length=_MOST_WORDS + _MOST_BOARD + (_MOST_POSITIONS if coordinates else 0),
        )
        if max_actions_per_turn < 1:
            raise ConfigError(f"max_actions_per_turn must be at least 1, got {max_actions_per_turn}")
        self.symbols = check_choice("symbols", Symbols, symbols)
        self.max_actions_per_turn = max_actions_per_turn
        self._legend = legend
        self._coordinates = coordinates
        self._oracle = SokobanOracle()

    @property
    def board(self) -> Board:
        """The board in play.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        _ = self.task
        assert self._board is not None
        return self._board

    def _begin(self, task: Task) -> str:
        self._board = Board(_level(task.record))
        self._score = self._share_done()
        return self._observe()

    def _share_done(self) -> float:
        """Return the share of the goals that have a box."""
        return self.board.boxes_on_goals / self.board.n_goals

    def _act(self, action: str) -> Outcome:
        commands = parse_commands(action, self.max_actions_per_turn)
        if isinstance(commands, str):
            return self._rejection(commands)
        board = self.board
        reward = 0.0
        moved = pushed = solved = False
        for direction, push in commands:
            if direction is None:
                move = board.noop()
            else:
                move = board.push(direction) if push else board.move(direction)
            reward += move.reward
            moved, pushed, solved = moved or move.moved, pushed or move.pushed, move.solved
            if solved:
                break
        observation = self._observe(moved, pushed)
        return Outcome(observation, reward, success=solved, score=self._share_done())

    def _reject(self, reason: str) -> str:
        return self._observe(note=reason)

    def _observe(self, moved: bool = False, pushed: bool = False, note: str = "") -> str:
        """Remember what the last turn did and return the observation."""
        self._moved, self._pushed, self._note = moved, pushed, note
        self._view = view_of(self.board, self.symbols)
        return self._text(legend(self.symbols)) if self._legend else self._text()

    def _text(self, heading: str = "") -> str:
        if not (self._note or heading or self._coordinates):
            return self._view.shown
        positions = coordinates(self.board) if self._coordinates else ""
        return "\n".join([part for part in (self._note, heading, self._view.shown, positions) if part])

    def _situation(self) -> Situation:
        view = self._view
        return Situation(anchor=view.xsb, admissible_actions=view.admissible, prompt_observation=self._text())

    def _extras(self) -> dict[str, Any]:
        return {
            "sokoban/board": self._view.shown,
            "sokoban/boxes_on_goals": self.board.boxes_on_goals,
            "sokoban/deadlocked": self._view.deadlocked,
            "sokoban/moved": self._moved,
            "sokoban/pushed": self._pushed,
        }

    def _goal(self) -> str:
        return _GOAL

    def canonical_action(self, text: str) -> str:
        """Map case, full stops and commas between actions to the exact grammar."""
        return canonical(text)

    def oracle_action(self) -> str:
        """Return the solver's next command, or as many as a turn takes, joined by `||`.

        Raises:
            ResetNeeded: No episode is running.
            NotSolvedError: The state has no solution, or none within the solver's budget.
        """
        self._require_running()
        moves = self._oracle.next_moves(self.board, self.max_actions_per_turn)
        return SEPARATOR.join(move.word for move in moves)

    def task_from_record(self, record: Any) -> Task:
        """Return the task of an XSB string.

        Raises:
            DataError: The record is no XSB string; the message names row and column.
        """
        if not isinstance(record, str):
            raise DataError(f"a Sokoban task record is an XSB string, got {type(record).__name__}")
        return Task("custom", "custom", "custom", Level.from_xsb(record).to_xsb())

    def render(self) -> Any:
        """Return the board as text ("ansi") or as uint8 pixels [height, width, 3] ("rgb_array").

        "human" shows it in a window (needs pygame, extra `[render]`) and returns None.
        """
        if self.render_mode is None:
            return None
        if self.render_mode == "ansi":
            return self._text(legend(self.symbols))
        pixels: np.ndarray = render_rgb(self.board, _TILE)
        if self.render_mode == "rgb_array":
            return pixels
        if self._window is None:
            self._window = HumanWindow("Sokoban", self.metadata["render_fps"])
        self._window.show(pixels)
        return None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TextEnv.reset`."""
        result = super().reset(seed=seed, options=options)
        if self.render_mode == "human":
            self.render()
        return result

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn; see `TextEnv.step`."""
        result = super().step(action)
        if self.render_mode == "human":
            self.render()
        return result

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None


class BoxobanEnv(SokobanEnv):
    """Sokoban on Boxoban's levels: 10x10 rooms with four boxes, 200 turns.

    ## Description
    Rules, texts and rewards are `SokobanEnv`'s; only the defaults differ. Give the folder of
    google-deepmind/boxoban-levels as `levels=`; without it, rooms of the same size are generated. Solutions
    with the fewest pushes run to more than 150 moves, hence the limit of 200 turns.

    ## Action Space
    As `SokobanEnv`.

    ## Observation Space
    As `SokobanEnv`.

    ## Rewards
    As `SokobanEnv`.

    ## Starting State
    As `SokobanEnv`; `collection` restricts a Boxoban folder to "unfiltered", "medium" or "hard".

    ## Episode End
    Terminated when solved, truncated after `max_turns` (default 200) turns.

    ## Arguments

    Those of `SokobanEnv`.

    ## Version History
    - v0: first version.
    """

    default_max_turns: ClassVar[int] = 200
    default_difficulty: ClassVar[str] = BOXOBAN

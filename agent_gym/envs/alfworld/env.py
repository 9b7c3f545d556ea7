"""ALFWorld as a text environment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.errors import AgentGymError, ConfigError, DataError, suggest
from agent_gym.core.tasks import Task, TaskSet
from agent_gym.envs.alfworld.engine import FeedbackStyle, GameState
from agent_gym.envs.alfworld.gamefile import TextFormat, read_game_content
from agent_gym.envs.alfworld.generator import HouseholdSpec
from agent_gym.envs.alfworld.goals import TaskType
from agent_gym.envs.alfworld.grammar import canonical
from agent_gym.envs.alfworld.household_data import Room
from agent_gym.envs.alfworld.oracle import Oracle
from agent_gym.envs.alfworld.tasks import FILE_KEY, choose_tasks, game_of, human_goals
from agent_gym.envs.alfworld.texts import NOTHING_HAPPENS

_Kind = TypeVar("_Kind", bound=StrEnum)


class Backend(StrEnum):
    """Which engine plays."""

    NATIVE = "native"
    TEXTWORLD = "textworld"


class Goals(StrEnum):
    """Where goal sentences come from."""

    TEMPLATE = "template"
    HUMAN = "human"


class Difficulty(NamedTuple):
    """Defaults of a named difficulty of generated households."""

    receptacles: int
    objects: int
    turns: int


DIFFICULTIES = {
    "small": Difficulty(6, 8, 50),
    "real": Difficulty(22, 40, 50),
    "large": Difficulty(220, 400, 100),
}


class ALFWorldEnv(TextEnv):
    """Household tasks in text: find things, clean, heat or cool them, and put them where they belong.

    ## Description
    The texts, admissible commands, rewards and wins are those of ALFWorld 0.4.2 on TextWorld 1.7.0, string for
    string, on the real games (`data=`) or on generated households. No solver and no language package is needed.

    ## Action Space
    `UnicodeText`; a command exactly as in `info["admissible_actions"]` (blanks around it are dropped):
    `go to R`, `open R`, `close R`, `take O from R`, `move O to R`, `heat O with R`, `cool O with R`,
    `clean O with R`, `use O`, `slice O with O`, `examine X`, `look`, `inventory`, `help`. With `text="0.3"`,
    `put O in/on R` takes the place of `move O to R` and there is no `help`. Anything else answers
    "Nothing happens." (with the reason, if `feedback="explain"`).

    ## Observation Space
    `UnicodeText`: the engine's feedback. The first one is the intro, which ends with the task;
    `info["prompt_observation"]` leaves the task out.

    ## Rewards
    1 when the task is solved, else 0; the episode ends then.

    ## Starting State
    The task's game. Splits of the sources:

    | data | splits | sizes |
    |---|---|---|
    | generated (default) | train, valid, test | 2**31, 1,000, 1,000; disjoint by content |
    | real (2.1.1) | train, valid_seen, valid_unseen | 3,553, 140, 134 playable games |

    ## Episode End
    Terminated when solved, truncated after `max_turns` (default 50) turns; commands that do nothing count.

    ## Information
    Beside the keys of `StepInfo`: `alfworld/moves` (accepted commands).

    ## Arguments
    Args:
        split: Split name; None is "train".
        data: Folder that is or holds `json_2.1.1` (also looked up below `AGENT_GYM_DATA`); None generates.
        text: "0.4" or "0.3": version of the texts.
        backend: "native", or "textworld" for the stock engine (extra `[alfworld]`).
        goals: "template" (the game's own sentence) or "human" (a sentence people wrote, drawn with the seed).
        feedback: "original", or "explain" to say why nothing happened.
        domain_randomization: Shuffle the numbers in names with the seed, as the original does in training.
        task_types: Keep these task types: names or the data set's ids 1 to 6.
        scenes: Keep these floor plans of the real data, for example ["10", "219"].
        difficulty: Row of `DIFFICULTIES` that gives the defaults of `receptacles`, `objects` and `max_turns`:
            "small", "real" (the median of the real rooms), "large" (ten times that).
        receptacles: Receptacles of a generated household.
        objects: Objects of a generated household.
        distractors: Further objects of the task's kind in a generated household.
        hidden: Chance that a task's object starts behind a closed door in a generated household.
        openable: Share of receptacles with doors in a generated household; None takes the room's usual one.
        rooms: Kinds of rooms to generate: "kitchen", "livingroom", "bedroom", "bathroom".
        tasks: A TaskSet, a list of Task or a task file; excludes `split` and the data arguments.
        max_turns: Turn limit.
        render_mode: "ansi" or None.
        invalid_action: "continue", "terminate" or "raise"; see `TextEnv`.
        anchor: "state" or "observation"; see `TextEnv`.

    Raises:
        ConfigError: An argument is out of range, or the textworld backend is not installed.
        DataError: The data are missing or malformed.

    ## Version History
    - v0: first version.
    """

    name: ClassVar[str] = "alfworld"
    default_max_turns: ClassVar[int] = 50
    prompt_folder: ClassVar[Path] = Path(__file__).parent

    def __init__(
        self,
        *,
        split: str | None = None,
        data: str | Path | None = None,
        text: str = TextFormat.V04,
        backend: str = Backend.NATIVE,
        goals: str = Goals.TEMPLATE,
        feedback: str = FeedbackStyle.ORIGINAL,
        domain_randomization: bool = False,
        difficulty: str = "real",
        task_types: Sequence[str | int] | None = None,
        scenes: Sequence[str | int] | None = None,
        receptacles: int | None = None,
        objects: int | None = None,
        distractors: int | None = None,
        hidden: float | None = None,
        openable: float | None = None,
        rooms: Sequence[str] | None = None,
        tasks: TaskSet | str | Path | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        invalid_action: str = "continue",
        anchor: str = "state",
    ) -> None:
        if difficulty not in DIFFICULTIES:
            known = list(DIFFICULTIES)
            raise ConfigError(
                f"difficulty must be one of {known}, got {difficulty!r}.{suggest(difficulty, known)}"
            )
        row = DIFFICULTIES[difficulty]
        knobs = {
            "receptacles": receptacles,
            "objects": objects,
            "distractors": distractors,
            "hidden": hidden,
            "openable": openable,
            "rooms": None if rooms is None else tuple(_choice("rooms", Room, room) for room in rooms),
        }
        given = {key: value for key, value in knobs.items() if value is not None}
        named = {"data": data, "task_types": task_types, "scenes": scenes, **given}
        chosen = resolve_tasks(type(self), tasks, split, named)
        if chosen is None:
            if data is not None and given:
                raise ConfigError(
                    f"{', '.join(given)} describe generated households, but data= names real games; drop one side"
                )
            types = tuple(_task_type(kind) for kind in task_types or ())
            sizes = {"receptacles": row.receptacles, "objects": row.objects}
            spec = HouseholdSpec(task_types=types, **{**sizes, **given})
            chosen = choose_tasks(data, split, spec, types, tuple(str(scene) for scene in scenes or ()))
        super().__init__(
            chosen,
            max_turns=row.turns if max_turns is None else max_turns,
            render_mode=render_mode,
            invalid_action=invalid_action,
            anchor=anchor,
        )
        self.text_format = TextFormat.parse(text)
        self.backend = _choice("backend", Backend, backend)
        self.goals = _choice("goals", Goals, goals)
        self.feedback = _choice("feedback", FeedbackStyle, feedback)
        self.domain_randomization = domain_randomization
        if self.backend is Backend.TEXTWORLD and self.feedback is FeedbackStyle.EXPLAIN:
            raise ConfigError("feedback='explain' is the native engine's; the stock engine has its own texts only")
        if self.backend is Backend.TEXTWORLD and self.goals is Goals.HUMAN:
            raise ConfigError("goals='human' is played by the native engine only; use backend='native'")
        self._state: GameState | None = None
        self._stock: StockGame | None = None
        self._oracle = Oracle()

    @property
    def state(self) -> GameState:
        """The game in play.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        _ = self.task
        assert self._state is not None
        return self._state

    def _begin(self, task: Task) -> str:
        game = game_of(task.record)
        shuffle_seed = int(self.np_random.integers(2**63)) if self.domain_randomization else None
        vocabulary = None if shuffle_seed is None else game.vocabulary(random.Random(shuffle_seed))
        sentence = None
        if self.goals is Goals.HUMAN:
            sentences = human_goals(task.record)
            sentence = sentences[int(self.np_random.integers(len(sentences)))]
        self._state = GameState(
            game, self.text_format, feedback=self.feedback, vocabulary=vocabulary, task=sentence
        )
        intro = self._state.reset()
        self._close_stock()
        if self.backend is Backend.TEXTWORLD:
            record = task.record
            content = read_game_content(Path(record[FILE_KEY])) if FILE_KEY in record else record
            self._stock = StockGame(content, self.text_format, shuffle_seed)
            return self._stock.reset()
        return intro

    def _act(self, action: str) -> Outcome:
        state = self.state
        moves = state.moves
        feedback = state.step(action)
        won, accepted = state.won, state.moves > moves
        if self._stock is not None:
            moves = self._stock.moves
            feedback = self._stock.step(action)
            won, accepted = self._stock.won, self._stock.moves > moves
        return Outcome(feedback, float(won), valid=accepted, success=won, score=float(won))

    def _reject(self, reason: str) -> str:
        if self.feedback is FeedbackStyle.EXPLAIN:
            return f"{NOTHING_HAPPENS} {reason}"
        return NOTHING_HAPPENS

    def _situation(self) -> Situation:
        state = self.state
        admissible = state.admissible() if self._stock is None else self._stock.admissible()
        shown = self._observation.removesuffix(state.task_line).rstrip("\n")
        return Situation(state.anchor(), tuple(admissible), prompt_observation=shown)

    def _extras(self) -> dict[str, Any]:
        return {"alfworld/moves": self.state.moves if self._stock is None else self._stock.moves}

    def _goal(self) -> str:
        return self.state.task

    def canonical_action(self, text: str) -> str:
        """Map the put and move forms of every version, capitals and full stops to the engine's form."""
        return canonical(text, self.text_format)

    def oracle_action(self) -> str:
        """Return the next command of a shortest scripted plan.

        Raises:
            ResetNeeded: No episode is running.
            AgentGymError: The game cannot be won any more.
        """
        self._require_running()
        command = self._oracle.action(self.state)
        if command is None:
            raise AgentGymError(
                f"task {self.task.id!r} cannot be won from this state (what is held fits nowhere, or a goal object "
                "is gone)"
            )
        return command

    def task_from_record(self, record: Any) -> Task:
        """Return the task of a game file's content, or of `{"game_file": path}`.

        Raises:
            DataError: The record is no game.
        """
        if not isinstance(record, dict):
            raise DataError(
                "an ALFWorld task record is the content of a game file (a dict with pddl_problem and grammar or "
                f"task), got {type(record).__name__}"
            )
        return Task("custom", game_of(record).task_type.value, "custom", record)

    def render(self) -> str | None:
        """Return what is visible as text ("ansi")."""
        return self.state.anchor() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Hand back what the stock engine holds."""
        self._close_stock()

    def _close_stock(self) -> None:
        if self._stock is not None:
            self._stock.close()
            self._stock = None


class StockGame:
    """A game on the stock engine that can be copied: a copy replays its commands.

    Args:
        content: Content of a game file, or a generated record.
        text_format: Version of the texts.
        shuffle_seed: Seed of shuffled names, None for the usual ones.
    """

    def __init__(self, content: dict[str, Any], text_format: TextFormat, shuffle_seed: int | None) -> None:
        from agent_gym.envs.alfworld.textworld_backend import TextWorldState  # needs the extra

        shuffle = None if shuffle_seed is None else random.Random(shuffle_seed)
        self._arguments = (content, text_format, shuffle_seed)
        self._game = TextWorldState(content, text_format, shuffle=shuffle)
        self._commands: list[str] = []

    def reset(self) -> str:
        """Start over; returns the intro."""
        self._commands = []
        return self._game.reset()

    def step(self, command: str) -> str:
        """Carry out a command; returns the feedback."""
        self._commands.append(command)
        return self._game.step(command)

    def admissible(self) -> list[str]:
        """Return the commands that would be accepted now."""
        return self._game.admissible()

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        return self._game.won

    @property
    def moves(self) -> int:
        """Accepted commands."""
        return self._game.moves

    def close(self) -> None:
        """Hand back the engine."""
        self._game.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> StockGame:
        twin = StockGame(*self._arguments)
        twin.reset()
        for command in self._commands:
            twin.step(command)
        return twin


def _task_type(value: str | int) -> TaskType:
    """Return the type of a name or of the data set's id (1 to 6)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if 1 <= value <= len(TaskType):
            return list(TaskType)[value - 1]
        raise ConfigError(f"task type ids are 1 to {len(TaskType)}, got {value}")
    return _choice("task_types", TaskType, value)


def _choice(name: str, kind: type[_Kind], value: str) -> _Kind:
    try:
        return kind(value)
    except ValueError:
        known = [member.value for member in kind]
        raise ConfigError(f"{name} must be one of {known}, got {value!r}.{suggest(str(value), known)}") from None

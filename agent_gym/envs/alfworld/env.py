"""ALFWorld as a text environment."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from gymnasium.error import ResetNeeded

from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.tasks import Task, TaskSet
from agent_gym.envs.alfworld import options as given
from agent_gym.envs.alfworld.data.generator import HouseholdSpec
from agent_gym.envs.alfworld.grammar import canonical
from agent_gym.envs.alfworld.options import Backend, Goals
from agent_gym.envs.alfworld.oracle import Oracle
from agent_gym.envs.alfworld.tasks import choose_tasks, game_content, game_of, human_goals
from agent_gym.envs.alfworld.textworld_backend import StockGame, require_stock
from agent_gym.envs.alfworld.world.engine import FeedbackStyle, GameState
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat
from agent_gym.envs.alfworld.world.texts import NOTHING_HAPPENS
from agent_gym.support.arguments import checked
from agent_gym.support.checks import check_choice, check_flag
from agent_gym.support.errors import AgentGymError, ConfigError, DataError

_MAX_OBSERVATION = 65_536
"""Characters; the largest generated households list some 50 thousand."""


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
        task_types: Keep these task types: names or the data set's ids 1 to 6, one or several.
        scenes: Keep these floor plans of the real data, for example [10, 219].
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

    # the running episode
    _state: GameState | None = None
    _stock: StockGame | None = None
    _task_sentence = ""

    @checked
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
        task_types: str | int | Collection[str | int] | None = None,
        scenes: str | int | Collection[str | int] | None = None,
        receptacles: int | None = None,
        objects: int | None = None,
        distractors: int | None = None,
        hidden: float | None = None,
        openable: float | None = None,
        rooms: str | Collection[str] | None = None,
        tasks: TaskSet | Sequence[Task] | str | Path | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
        invalid_action: str = "continue",
        anchor: str = "state",
    ) -> None:
        self.text_format = TextFormat.parse(text)
        self.backend = check_choice("backend", Backend, backend)
        self.goals = check_choice("goals", Goals, goals)
        self.feedback = check_choice("feedback", FeedbackStyle, feedback)
        self.domain_randomization = check_flag("domain_randomization", domain_randomization)
        level = check_choice("difficulty", given.DIFFICULTIES, difficulty)
        chosen_rooms = None if rooms is None else given.rooms(rooms)
        knobs: dict[str, Any] = {"receptacles": receptacles, "objects": objects, "distractors": distractors}
        knobs |= {"hidden": hidden, "openable": openable, "rooms": chosen_rooms}
        knobs = {name: value for name, value in knobs.items() if value is not None}
        named = {"data": data, "task_types": task_types, "scenes": scenes, **knobs}
        chosen = resolve_tasks(type(self), tasks, split, named)
        self._check_combination(generated=chosen is None and data is None)
        if chosen is None:
            if data is not None and knobs:
                raise ConfigError(
                    f"{', '.join(knobs)} describe generated households, but data= names real games; drop one side"
                )
            types = given.task_types(task_types)
            sizes = {"receptacles": level.receptacles, "objects": level.objects}
            spec = HouseholdSpec(task_types=types, **{**sizes, **knobs})
            chosen = choose_tasks(data, split, spec, types, given.scenes(scenes))
        super().__init__(
            chosen,
            max_turns=level.turns if max_turns is None else max_turns,
            render_mode=render_mode,
            invalid_action=invalid_action,
            anchor=anchor,
            max_observation_length=_MAX_OBSERVATION,
        )
        self._oracle = Oracle()

    def _check_combination(self, *, generated: bool) -> None:
        """Raise ConfigError for arguments that exclude each other, or for a backend that is not installed."""
        if self.goals is Goals.HUMAN and generated:
            raise ConfigError(
                "goals='human' needs the real data (data=...): generated households have no human goals"
            )
        if self.backend is Backend.NATIVE:
            return
        if self.feedback is FeedbackStyle.EXPLAIN:
            raise ConfigError("feedback='explain' is the native engine's; the stock engine has its own texts only")
        if self.goals is Goals.HUMAN:
            raise ConfigError("goals='human' is played by the native engine only; use backend='native'")
        if self.text_format is TextFormat.V03 and generated:
            raise ConfigError(
                "the stock engine plays text='0.3' only from files of that format (data=...), whose grammar no "
                "package ships any more; use text='0.4' or backend='native'"
            )
        require_stock()

    @property
    def state(self) -> GameState:
        """The game in play.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        if self._state is None:
            raise ResetNeeded("call reset() first: no game is running")
        return self._state

    def _content(self, task: Task) -> Any:
        game = GameRecord.from_mapping(game_content(task.record))
        sentences = human_goals(task.record) if self.goals is Goals.HUMAN else ()
        return [game.problem, game.task, sentences]

    def _begin(self, task: Task) -> str:
        self._state = None  # a reset that fails must not leave the previous game to play on
        self._close_stock()
        try:
            game = game_of(task.record)
        except DataError as error:
            raise DataError(f"task {task.id!r}: {error}") from error
        shuffle_seed = int(self.np_random.integers(2**63)) if self.domain_randomization else None
        vocabulary = None if shuffle_seed is None else game.vocabulary(random.Random(shuffle_seed))
        sentence = None
        if self.goals is Goals.HUMAN:
            sentences = human_goals(task.record)
            sentence = sentences[int(self.np_random.integers(len(sentences)))]
        state = GameState(game, self.text_format, feedback=self.feedback, vocabulary=vocabulary, task=sentence)
        if self.backend is Backend.TEXTWORLD:
            self._stock = StockGame(game_content(task.record), self.text_format, shuffle_seed)
        intro = state.intro() if self._stock is None else self._stock.reset()
        self._oracle = Oracle()
        self._task_sentence = state.task
        self._state = state
        return intro

    def _act(self, action: str) -> Outcome:
        state, stock = self.state, self._stock
        moves = state.moves
        feedback = state.step(action)
        won, accepted = state.won, state.moves > moves
        if stock is not None:  # the native game goes along, for anchors and the oracle
            moves = stock.moves
            feedback = stock.step(action)
            won, accepted = stock.won, stock.moves > moves
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
        return self._task_sentence

    def canonical_action(self, text: str) -> str:
        """Map the put and move forms of every version, capitals and full stops to the engine's form."""
        if self._state is not None and text in self._state.admissible():
            return text
        return canonical(text, self.text_format)

    def oracle_action(self) -> str:
        """Return the next command of a shortest scripted plan.

        Raises:
            ResetNeeded: No episode is running.
            AgentGymError: The game cannot be won any more.
        """
        self._require_running()
        if self.state.won:  # a game that starts won is won by any command
            return "look"
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
        if not isinstance(record, Mapping):
            raise DataError(
                "an ALFWorld task record is the content of a game file (a dict with pddl_problem and grammar or "
                f"task), got {type(record).__name__}"
            )
        return Task("custom", game_of(record).task_type.value, "custom", dict(record))

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

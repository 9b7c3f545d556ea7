"""The multi-turn text environment that every bundled environment extends.

An environment class here is a thin adapter: pure rules live in world modules, and `TextEnv` keeps everything
that is the same everywhere: the Gymnasium contract, task selection, the turn limit, what happens to invalid
actions, and the keys of `info`. The turn limit is kept here rather than by Gymnasium's `TimeLimit`, because
that wrapper turns a win on the last turn into a truncation.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
from gymnasium.error import ResetNeeded

from agent_gym.core.info import AnchorKind, InvalidActionPolicy, StopReason
from agent_gym.core.replies import RejectedReply, ReplyGrammar
from agent_gym.core.spaces import UnicodeText
from agent_gym.core.tasks import ListTaskSet, Task, TaskSet, load_tasks
from agent_gym.support.checks import check_choice
from agent_gym.support.errors import ConfigError, InvalidActionError, suggest
from agent_gym.support.faults import place_of
from agent_gym.support.seeding import stable_hash

_RESET_OPTIONS = ("task_id", "task")
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one action did; returned by `TextEnv._act`.

    Attributes:
        observation: Text that the agent sees next.
        reward: Reward of the turn in the environment's native scheme.
        valid: Whether the action was accepted. An action that was not must leave the world as it was.
        success: Whether the task is solved now.
        ended: Whether the episode is over for the world's own reasons (implied by `success`).
        score: Task score in [0, 1] so far.
        stop_reason: Why it ended, when neither success nor an ordinary failure (a tool error).
        extras: Environment-specific `info` entries, keys prefixed with the environment's name.
    """

    observation: str
    reward: float = 0.0
    valid: bool = True
    success: bool = False
    ended: bool = False
    score: float = 0.0
    stop_reason: StopReason | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Situation:
    """What can be said of the current state; returned by `TextEnv._situation`.

    Attributes:
        anchor: Canonical text of the visible state, without history.
        admissible_actions: Literal actions that would be accepted now and change something.
        action_templates: Accepted free-text forms.
        prompt_observation: The observation without the goal, or None when the observation never holds it.
    """

    anchor: str
    admissible_actions: tuple[str, ...] = ()
    action_templates: tuple[str, ...] = ()
    prompt_observation: str | None = None


class TextEnv(gym.Env[str, str]):
    """Gymnasium environment whose observations and actions are text, played in turns towards a goal.

    Subclasses define the class variables and the five methods `_begin`, `_act`, `_situation`,
    `oracle_action` and `task_from_record`; they call `super().__init__` with their task set.

    Args:
        tasks: Task set that `reset` draws from.
        max_turns: Turns after which the episode is truncated; the class default when None.
        render_mode: One of `metadata["render_modes"]` or None.
        invalid_action: "continue" (the turn counts and the observation is the original's or says why),
            "terminate" or "raise".
        anchor: "state" for the environment's canonical text of the visible state, "observation" for the raw
            observation (what published step-group code uses).
        max_observation_length: Length of the observation space in characters.
        max_action_length: Length of the action space in characters; a longer action is invalid.

    Raises:
        ConfigError: An argument is out of range; the message names the values allowed.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (gymnasium's name)

    name: ClassVar[str]
    """Prefix of the environment's own `info` keys, and name of its prompt folder."""
    default_max_turns: ClassVar[int]
    """Turn limit when none is given."""
    reply_grammar: ClassVar[ReplyGrammar] = ReplyGrammar()
    """Tags that a model's reply uses for this environment."""
    prompt_folder: ClassVar[Path]
    """Folder of the environment's prompt templates (`prompt.j2`, and others by name)."""
    idle_reward: float = 0.0
    """Reward of a turn whose action was rejected before it reached the world: what doing nothing costs."""

    def __init__(
        self,
        tasks: TaskSet,
        *,
        max_turns: int | None = None,
        render_mode: str | None = None,
        invalid_action: str = InvalidActionPolicy.CONTINUE,
        anchor: str = AnchorKind.STATE,
        max_observation_length: int = 16_384,
        max_action_length: int = 4_096,
    ) -> None:
        self.tasks = tasks
        self.max_turns = self.default_max_turns if max_turns is None else max_turns
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ConfigError(f"render_mode must be None or one of {modes}, got {render_mode!r}")
        self.render_mode = render_mode
        self.invalid_action = check_choice("invalid_action", InvalidActionPolicy, invalid_action, quoted=True)
        self.anchor = check_choice("anchor", AnchorKind, anchor, quoted=True)
        self.observation_space = UnicodeText(max_observation_length)
        self.action_space = UnicodeText(max_action_length)
        self._task: Task | None = None
        self._turn = 0
        self._stop_reason = StopReason.RUNNING
        self._observation = ""
        self._score = 0.0

    # What a subclass supplies ---------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, task: Task) -> str:
        """Set the world to the start of `task` and return the first observation."""

    @abstractmethod
    def _act(self, action: str) -> Outcome:
        """Apply one action to the world; must leave it unchanged when the action is not valid."""

    @abstractmethod
    def _situation(self) -> Situation:
        """Describe the current state."""

    @abstractmethod
    def oracle_action(self) -> str:
        """Return the expert's next action in the current state.

        Raises:
            ResetNeeded: No episode is running.
        """

    @abstractmethod
    def task_from_record(self, record: Any) -> Task:
        """Return the task of a record that is in no list, with any id (reset replaces it).

        Raises:
            DataError: The record is malformed; the message says how.
        """

    def _goal(self) -> str:
        """Return the instruction of the current task."""
        raise NotImplementedError

    def _reject(self, reason: str) -> str:
        """Return the observation of a turn whose reply held no usable action."""
        return reason

    def _extras(self) -> dict[str, Any]:
        """Return environment-specific `info` entries that describe the current state."""
        return {}

    def world_digest(self) -> str:
        """Return a hash of the data that tasks are played in beside their own records: a catalogue, a corpus.

        "" where there are none, and where they are generated with the task.
        """
        return ""

    def _content(self, task: Task) -> Any:
        """Return what a task plays, as JSON data without places of this machine."""
        return task.record

    def canonical_action(self, text: str) -> str:
        """Map a lenient spelling of an action to the exact grammar; used by lenient reply parsing only."""
        return text

    # What an evaluation says of the tasks -----------------------------------------------------------------

    def tasks_digest(self, ids: Iterable[str]) -> str:
        """Return a hash of tasks: ids in order, what stands behind them, and the data they are played in.

        Equal digests mean that two agents met the same tasks. Records are read, except of generated tasks, whose
        ids say it all; a record that is no JSON data is not looked into.

        Raises:
            DataError: The record of a task cannot be read.
        """
        tasks = self.tasks.subset(ids)
        parts = [tasks.digest()]
        if not tasks.generated:
            parts += [_json_hash(self._content(task)) for task in tasks]
        parts += filter(None, [self.world_digest()])
        return parts[0] if len(parts) == 1 else stable_hash(*parts, size=16)

    @property
    def turn_limit(self) -> int | None:
        """Turn limit of every task, None where tasks have limits of their own."""
        return self.max_turns

    # Gymnasium ------------------------------------------------------------------------------------------

    @property
    def max_turns(self) -> int:
        """Turns after which an episode is truncated."""
        return self._max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"max_turns must be an integer of at least 1, got {value!r}")
        self._max_turns = value

    @property
    def task(self) -> Task:
        """Task of the running episode.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        if self._task is None:
            raise ResetNeeded("call reset() first: no episode has been started")
        return self._task

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Fixes everything visible from here on; None continues the environment's own generator.
            options: `{"task_id": id}` pins one task of the set, `{"task": record}` plays a record that is in
                no set (its id becomes `custom/<hash>`).

        Returns:
            The first observation and the info of `StepInfo`.

        Raises:
            UnknownTaskError: The task id is not in the set.
            ConfigError: An option is unknown or of the wrong type.
        """
        super().reset(seed=seed)
        self._task = None  # a failed start leaves no episode, least of all the one before
        task = self._chosen(options)
        self._turn = 0
        self._stop_reason = StopReason.RUNNING
        self._score = 0.0
        self._task = task
        try:
            self._observation = self._returned("_begin", self._begin(task), str)
        except Exception:
            self._task = None
            raise
        return self._observation, self._info(valid=True)

    def _chosen(self, options: Any) -> Task:
        """Return the task that the options of a reset name, or one drawn."""
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"reset options must be a dict, got {options!r}")
        options = dict(options or {})
        for key in options:
            if key not in _RESET_OPTIONS:
                hint = suggest(str(key), _RESET_OPTIONS)
                raise ConfigError(f"unknown reset option {key!r}; known: {list(_RESET_OPTIONS)}.{hint}")
        if len(options) > 1:
            raise ConfigError("give either options['task_id'] or options['task'], not both")
        if "task" in options:
            found = self.task_from_record(options["task"])
            return Task(f"custom/{stable_hash(repr(found.record))}", found.type, "custom", found.record)
        if "task_id" in options:
            task_id = options["task_id"]
            if not isinstance(task_id, str):
                raise ConfigError(
                    f"options['task_id'] must be the id of a task, a str, got {task_id!r}; leave it out to draw one"
                )
            return self.tasks.get(task_id)
        return self.tasks.sample(self.np_random)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one turn.

        Args:
            action: Text of the action, or a `RejectedReply` where a model's reply held none.

        Returns:
            Observation, reward, terminated, truncated and info. A win on the last permitted turn is
            terminated and not truncated.

        Raises:
            ResetNeeded: No episode is running.
            InvalidActionError: The action was not accepted and `invalid_action="raise"`.
            TypeError: The action is not a string.
        """
        if self._task is None or self._stop_reason:
            ended = f" (the last one ended: {self._stop_reason.value})" if self._stop_reason else ""
            raise ResetNeeded(f"no episode is running{ended}; call reset() before step()")
        outcome, failure = self._attempt(action)
        if not outcome.valid and self.invalid_action is InvalidActionPolicy.RAISE:
            raise InvalidActionError(self._why_invalid(action, outcome.observation))
        self._turn += 1
        self._observation = outcome.observation
        self._score = outcome.score
        if outcome.success:
            self._stop_reason = StopReason.SUCCESS
        elif outcome.ended:
            self._stop_reason = outcome.stop_reason or StopReason.FAILURE
        elif not outcome.valid and self.invalid_action is InvalidActionPolicy.TERMINATE:
            self._stop_reason = failure
        elif self._turn >= self.max_turns:
            self._stop_reason = StopReason.MAX_TURNS
        truncated = self._stop_reason is StopReason.MAX_TURNS
        terminated = bool(self._stop_reason) and not truncated
        info = self._info(valid=outcome.valid)
        info.update(outcome.extras)
        return outcome.observation, float(outcome.reward), terminated, truncated, info

    def _attempt(self, action: str) -> tuple[Outcome, StopReason]:
        """Apply the action, or reject it; returns the outcome and the reason in case it must end there."""
        if isinstance(action, RejectedReply):
            return self._rejection(action.reason), StopReason.PARSE_ERROR
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, got {type(action).__name__}")
        limit = self.action_space.max_length  # type: ignore[attr-defined]
        if len(action) > limit:
            reason = f"The action has {len(action):,} characters; at most {limit:,} are accepted."
            return self._rejection(reason), StopReason.INVALID_ACTION
        return self._returned("_act", self._act(action), Outcome), StopReason.INVALID_ACTION

    def _returned(self, method: str, value: Any, kind: type[_Kind]) -> _Kind:
        """Return what a subclass's method gave, which no type checker may have seen."""
        if isinstance(value, kind):
            return value
        place = place_of(getattr(type(self), method))
        article = "an" if kind is Outcome else "a"
        raise TypeError(
            f"{type(self).__name__}.{method} must return {article} {kind.__name__}, got {type(value).__name__}"
            f"{f' ({place})' if place else ''}"
        )

    def _rejection(self, reason: str) -> Outcome:
        return Outcome(self._reject(reason), reward=self.idle_reward, valid=False, score=self._score)

    def _why_invalid(self, action: str, observation: str) -> str:
        shown = action if len(action) <= 80 else action[:77] + "..."
        admissible = self._situation().admissible_actions
        hint = suggest(shown, admissible)
        if admissible and not hint:
            hint = f" Admissible now: {list(admissible[:8])}"
        reason = next(iter(observation.strip().splitlines()), "")
        return f"action {shown!r} is not accepted: {reason}{hint}"

    def _info(self, *, valid: bool) -> dict[str, Any]:
        task = self.task
        situation = self._returned("_situation", self._situation(), Situation)
        shown = situation.prompt_observation
        over = bool(self._stop_reason)
        return {
            "task_id": task.id,
            "task_type": task.type,
            "goal": self._goal(),
            "admissible_actions": () if over else situation.admissible_actions,
            "action_templates": () if over else situation.action_templates,
            "anchor": self._observation if self.anchor is AnchorKind.OBSERVATION else situation.anchor,
            "prompt_observation": self._observation if shown is None else shown,
            "valid_action": valid,
            "success": self._stop_reason is StopReason.SUCCESS,
            "score": float(self._score),
            "turn": self._turn,
            "stop_reason": self._stop_reason.value,
            **self._extras(),
        }

    def _require_running(self) -> None:
        """Raise ResetNeeded unless an episode is running."""
        if self._task is None or self._stop_reason:
            raise ResetNeeded("no episode is running; call reset() first")


def _json_hash(value: Any) -> str:
    try:
        return stable_hash(json.dumps(value, sort_keys=True))
    except (TypeError, ValueError):
        return ""


def resolve_tasks(
    env_class: type[TextEnv],
    tasks: TaskSet | Sequence[Task] | str | Path | None,
    split: str | None,
    data_arguments: Mapping[str, Any],
) -> TaskSet | None:
    """Return the task set given as `tasks=`, or None when split and data arguments choose it.

    Args:
        env_class: Environment class, for messages.
        tasks: The `tasks` argument of the environment.
        split: The `split` argument, None when not given.
        data_arguments: Data arguments by name, None where not given.

    Raises:
        ConfigError: `tasks` is given together with `split` or a data argument.
    """
    if tasks is None:
        return None
    clash = [name for name, value in {"split": split, **data_arguments}.items() if value is not None]
    if clash:
        raise ConfigError(
            f"{env_class.__name__}: tasks= already names the tasks, so it cannot be combined with "
            f"{', '.join(f'{name}=' for name in clash)}; drop one of them"
        )
    if isinstance(tasks, TaskSet):
        return tasks
    if isinstance(tasks, (str, Path)):
        return load_tasks(tasks)
    if isinstance(tasks, (list, tuple)) and all(isinstance(task, Task) for task in tasks):
        return ListTaskSet(tasks)
    raise ConfigError(f"tasks must be a TaskSet, a list of Task or a path, got {type(tasks).__name__}")

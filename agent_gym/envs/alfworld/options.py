"""Arguments of the ALFWorld environment: what may be chosen, and reading what users give."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from agent_gym.envs.alfworld.data.household_data import Room
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.checks import check_choice, several
from agent_gym.support.errors import ConfigError


class Backend(StrEnum):
    """Which engine plays."""

    NATIVE = "native"
    """The engine of this package."""
    TEXTWORLD = "textworld"
    """The stock packages (extra `[alfworld]`)."""


class Goals(StrEnum):
    """Where goal sentences come from."""

    TEMPLATE = "template"
    """The game's own sentence."""
    HUMAN = "human"
    """One of the sentences that people wrote for the game."""


class Difficulty(NamedTuple):
    """Defaults of a named difficulty of generated households."""

    receptacles: int
    objects: int
    turns: int


DIFFICULTIES: Final[Mapping[str, Difficulty]] = {
    "small": Difficulty(6, 8, 50),
    "real": Difficulty(22, 40, 50),
    "large": Difficulty(220, 400, 100),
}


def task_types(given: Any) -> tuple[TaskType, ...]:
    """Return task types by name or by the data set's id (1 to 6), in the order of the ids, each once.

    Args:
        given: A name, an id, a collection of them, or None for none.

    Raises:
        ConfigError: A name or an id is unknown.
    """
    asked = {_task_type(value) for value in several("task_types", given)}
    return tuple(kind for kind in TaskType if kind in asked)


def rooms(given: Any) -> tuple[Room, ...]:
    """Return kinds of rooms by name, in a fixed order, each once; see `task_types`."""
    asked = {check_choice("rooms", Room, value) for value in several("rooms", given)}
    return tuple(room for room in Room if room in asked)


def scenes(given: Any) -> tuple[str, ...]:
    """Return floor plans as text: of a number, a text, a collection of them, or None for none."""
    return tuple(str(value) for value in several("scenes", given))


def _task_type(value: Any) -> TaskType:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if isinstance(number, int) and not isinstance(number, bool):
        if 1 <= number <= len(TaskType):
            return list(TaskType)[number - 1]
        raise ConfigError(f"task type ids are 1 to {len(TaskType)}, got {number}")
    return check_choice("task_types", TaskType, value)

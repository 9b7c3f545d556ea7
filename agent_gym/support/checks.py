"""Checks of settings and arguments: each names the setting, what is allowed and what it was given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar, overload

from agent_gym.support.errors import ConfigError, suggest

Choice = TypeVar("Choice", bound=StrEnum)
Value = TypeVar("Value")


@overload
def check_choice(name: str, known: type[Choice], given: object, *, quoted: bool = ...) -> Choice: ...
@overload
def check_choice(name: str, known: Mapping[str, Value], given: object, *, quoted: bool = ...) -> Value: ...
@overload
def check_choice(name: str, known: Sequence[str], given: object, *, quoted: bool = ...) -> str: ...
def check_choice(
    name: str, known: type[StrEnum] | Mapping[str, Any] | Sequence[str], given: object, *, quoted: bool = False
) -> Any:
    """Return what a user named: the member of an enumeration, the value in a table, or the name itself.

    Args:
        name: The setting's name, for the message.
        known: What there is: an enumeration, a table by name, or names.
        given: What the user gave.
        quoted: Show the names in quotes, as arguments in Python are written.

    Raises:
        ConfigError: There is nothing of that name; the message lists all names.
    """
    names = [str(one) for one in known]
    if not isinstance(given, str) or given not in names:
        hint = suggest(given, names) if isinstance(given, str) else ""
        shown = ", ".join(map(repr, names) if quoted else names)
        raise ConfigError(f"{name} must be one of {shown}, got {given!r}.{hint}")
    if isinstance(known, Mapping):
        return known[given]
    return known(given) if isinstance(known, type) else given


def several(name: str, given: Any) -> tuple[Any, ...]:
    """Return what a user gave for a list: one value stands for a list of it, None for an empty one.

    A list may be given as its only item (`rooms="kitchen"`), because command lines and configuration files make
    that natural, and a text taken for a list of letters would be a riddle.

    Raises:
        ConfigError: It is no list and no plain value.
    """
    if given is None:
        return ()
    if isinstance(given, str | int | float):
        return (given,)
    if not isinstance(given, Iterable):
        raise ConfigError(f"{name} must be a list, got {type(given).__name__}")
    return tuple(given)


def check_number(
    name: str, value: object, low: float, high: float, *, open_low: bool = False, off: str = ""
) -> None:
    """Check a real number.

    Args:
        name: The setting.
        value: What it was given.
        low: Least value allowed.
        high: Greatest value allowed; infinity for none.
        open_low: Whether `low` itself is not allowed.
        off: What switches the setting off, for the message.

    Raises:
        ConfigError: It is no finite number in the range.
    """
    real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if real and low <= value <= high and not (open_low and value == low):  # type: ignore[operator]
        return
    least = f"greater than {low:g}" if open_low else f"at least {low:g}"
    most = f" and at most {high:g}" if math.isfinite(high) else ""
    raise ConfigError(
        f"{name} must be a finite number {least}{most}, got {value!r}.{' ' + off + '.' if off else ''}"
    )


def check_whole(name: str, value: object, least: int) -> int:
    """Return a whole number that a user gave.

    Raises:
        ConfigError: It is none, or it is below `least`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return a switch that a user set.

    Raises:
        ConfigError: It is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}.")
    return value

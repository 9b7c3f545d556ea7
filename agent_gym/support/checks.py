"""Checks of settings and arguments: each names the setting, what is allowed and what it was given."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TypeVar

from agent_gym.support.errors import ConfigError, suggest

Choice = TypeVar("Choice", bound=StrEnum)


def check_choice(name: str, kind: type[Choice], value: object) -> Choice:
    """Return the member of an enumeration that a user named.

    Args:
        name: The setting's name, for the message.
        kind: The enumeration.
        value: What the user gave.

    Raises:
        ConfigError: There is no such member; the message lists all.
    """
    known = [str(member) for member in kind]
    if not isinstance(value, str) or value not in known:
        hint = suggest(value, known) if isinstance(value, str) else ""
        raise ConfigError(f"{name} must be one of {', '.join(known)}, got {value!r}.{hint}")
    return kind(value)


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

"""Arguments that name a member of an enumeration."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

from agent_gym.core.errors import ConfigError, suggest

_Kind = TypeVar("_Kind", bound=StrEnum)


def choice(name: str, kind: type[_Kind], value: Any) -> _Kind:
    """Return the member of an enumeration that a user named.

    Args:
        name: The argument's name, for the message.
        kind: The enumeration.
        value: What the user gave.

    Raises:
        ConfigError: There is no such member; the message lists all.
    """
    try:
        return kind(value)
    except ValueError:
        known = [member.value for member in kind]
        raise ConfigError(f"{name} must be one of {known}, got {value!r}.{suggest(str(value), known)}") from None

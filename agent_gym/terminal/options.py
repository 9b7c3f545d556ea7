"""Options that several subcommands share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agent_gym.support.errors import ConfigError


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Return environment options from `name=value` texts; values are read as JSON, else as text.

    Raises:
        ConfigError: A text has no `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"an option has the form name=value, got {pair!r}")
        parsed = read_value(value)
        options[name.strip()] = tuple(parsed) if isinstance(parsed, list) else parsed
    return options


def read_value(text: str) -> Any:
    """Return a value typed on a command line: JSON if it is JSON, Python's True, False and None, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)

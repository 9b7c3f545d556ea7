"""The action grammar: `search[words]` and `click[name]`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from agent_gym.envs.webshop.world.kinds import Compat

SEARCH: Final = "search"
CLICK: Final = "click"
SEARCH_TEMPLATE: Final = "search[{query}]"

# The original's pattern: the name ends at the last opening bracket, and what follows the last "]" is dropped.
_UPSTREAM: Final = re.compile(r"(.+)\[(.+)\]")
_FIXED: Final = re.compile(r"(search|click)\[(.+)\]", re.DOTALL)


class Action(NamedTuple):
    """A name ("search" or "click") and its argument in lower case."""

    name: str
    argument: str


def parse_action(text: str, compat: Compat) -> Action | None:
    """Return the action that a text stands for, or None when it stands for none.

    In the original's grammar (`web_agent_site/engine/engine.py`, `parse_action`) an argument cannot hold an
    opening bracket or a line break; in the fixed one it can, and nothing may follow the closing bracket.
    """
    if compat is Compat.UPSTREAM:
        found = _UPSTREAM.match(text)
        if found is None or found[1] not in (SEARCH, CLICK):
            return None
    else:
        found = _FIXED.fullmatch(text)
        if found is None:
            return None
    return Action(found[1], found[2].lower())


def search(query: str) -> str:
    """Return the action that searches for `query`."""
    return f"{SEARCH}[{query}]"


def click(name: str) -> str:
    """Return the action that clicks `name`."""
    return f"{CLICK}[{name}]"


def clickable(name: str, compat: Compat) -> bool:
    """Return whether `click[name]` is read back as a click on `name`."""
    if compat is Compat.UPSTREAM and not ("[" in name or "]" in name or "\n" in name):
        return bool(name)  # the usual case, without the pattern's cost
    return parse_action(click(name), compat) == (CLICK, name)

"""Spellings of ALFWorld commands that other versions and models use, mapped to the engine's.

The engine accepts its own form only, as the original does. Published agents were written for older grammars
("put mug 1 in/on desk 1"), and models add full stops and capitals; a lenient reply parser maps them here.
"""

from __future__ import annotations

import re

from agent_gym.envs.alfworld.world.gamefile import TextFormat

_PUT = re.compile(r"(?:put|place|move) (.+?) (?:in/on|into|onto|in|on|to) (.+)")


def canonical(action: str, text_format: TextFormat) -> str:
    """Return the engine's spelling of an action.

    Args:
        action: Text of an action.
        text_format: Format of the game, which decides between "move X to Y" and "put X in/on Y".
    """
    text = " ".join(action.lower().split()).rstrip(" .!")
    match = _PUT.fullmatch(text)
    if match is None:
        return text
    thing, place = match.groups()
    return f"move {thing} to {place}" if text_format is TextFormat.V04 else f"put {thing} in/on {place}"

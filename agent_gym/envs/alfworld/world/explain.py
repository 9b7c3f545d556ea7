"""Reasons for "Nothing happens.", for `feedback="explain"`.

A reason tells only what the agent can see from where it stands: it never gives away the inside of a closed
container or what lies elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_gym.envs.alfworld.world.gamefile import TextFormat

if TYPE_CHECKING:
    from agent_gym.envs.alfworld.world.engine import GameState

_FORMS = {
    "go": "go to (receptacle)",
    "open": "open (receptacle)",
    "close": "close (receptacle)",
    "take": "take (object) from (receptacle)",
    "move": "move (object) to (receptacle)",
    "put": "put (object) in/on (receptacle)",
    "heat": "heat (object) with (receptacle)",
    "cool": "cool (object) with (receptacle)",
    "clean": "clean (object) with (receptacle)",
    "use": "use (object)",
    "slice": "slice (object) with (object)",
    "examine": "examine (something)",
    "look": "look",
    "inventory": "inventory",
    "help": "help",
}
_LINKS = {"take": " from ", "move": " to ", "put": " in/on ", "slice": " with "} | dict.fromkeys(
    ("heat", "cool", "clean"), " with "
)

_LONGEST = 200
_SHOWN = 40


def explain(state: GameState, command: str) -> str:
    """Say why a command is not admissible.

    Args:
        state: The game, unchanged by the command.
        command: The rejected text, without blanks around it.

    Returns:
        One or two sentences.
    """
    verb, _, rest = _shortened(command).partition(" ")
    known = _verbs(state)
    if verb not in known:
        return f"No command starts with {verb[:_SHOWN]!r}; commands start with {', '.join(known)}."
    link = _LINKS.get(verb, "")
    if verb == "go":
        if not rest.startswith("to ") or not rest[3:].strip():
            return _form(verb)
        return _why_not_go(state, rest[3:])
    if verb in ("look", "inventory", "help") or not rest or (link and link not in rest):
        return _form(verb)
    if link:
        name, _, other = rest.partition(link)
        if verb == "slice":
            return _why_not_slice(state, name, other)
        return _why_not_with(state, verb, name, other)
    if verb in ("open", "close"):
        return _not_here(state, rest) or _why_not_door(state, verb, rest)
    if verb == "use":
        return f"You see no {rest!r} here that can be switched on."
    return f"You can examine receptacles here and what you carry; {rest!r} is neither."


def _shortened(command: str) -> str:
    """Cut a command that is longer than any real one; a reason repeats parts of it."""
    return command if len(command) <= _LONGEST else command[: _LONGEST - 3] + "..."


def _verbs(state: GameState) -> list[str]:
    left_out = ("put",) if state.text_format is TextFormat.V04 else ("move", "help")
    return [verb for verb in _FORMS if verb not in left_out]


def _form(verb: str) -> str:
    return f"The form of this command is: {_FORMS[verb]}."


def _not_here(state: GameState, receptacle: str) -> str:
    """Return why a receptacle cannot be used from here, "" when it can."""
    if receptacle not in state.vocabulary.receptacle_number:
        return f"There is no receptacle {receptacle!r} in this room."
    if state.receptacle_here(receptacle) < 0:
        return f"You are not at {receptacle}; go to it first."
    return ""


def _why_not_go(state: GameState, receptacle: str) -> str:
    if receptacle not in state.vocabulary.receptacle_number:
        return f"There is no receptacle {receptacle!r} in this room."
    if state.receptacle_here(receptacle) >= 0:
        return f"You are already at {receptacle}."
    return f"{receptacle} cannot be reached."


def _why_not_door(state: GameState, verb: str, receptacle: str) -> str:
    r = state.receptacle_here(receptacle)
    if not state.game.openable >> r & 1:
        return f"{receptacle} has no door."
    return f"{receptacle} is already {'open' if verb == 'open' else 'closed'}."


def _why_not_with(state: GameState, verb: str, name: str, receptacle: str) -> str:
    absent = _not_here(state, receptacle)
    if absent:
        return absent
    game, names = state.game, state.vocabulary
    r = state.receptacle_here(receptacle)
    if verb == "take":
        if state.held >= 0:
            return f"Your hands are full: you are carrying {names.objects[state.held]}."
        if not state.reachable(r):
            return f"{receptacle} is closed; open it first."
        if names.object_number.get(name, -1) not in state.contents[r]:
            return f"You see no {name!r} in or on {receptacle}."
        return f"{name} cannot be picked up."
    if state.held < 0 or names.objects[state.held] != name:
        return f"You are not carrying {name!r}."
    if verb in ("move", "put"):
        if not state.reachable(r):
            return f"{receptacle} is closed; open it first."
        return f"{receptacle} is no place for {name}."
    tools, tool = {
        "heat": (game.heaters, "a microwave"),
        "cool": (game.coolers, "a fridge"),
        "clean": (state.washers, "a sink basin"),
    }[verb]
    if not tools >> r & 1:
        return f"{receptacle} cannot {verb} things; use {tool}."
    return f"You cannot {verb} {name}."


def _why_not_slice(state: GameState, name: str, knife: str) -> str:
    game, names = state.game, state.vocabulary
    if state.held < 0 or names.objects[state.held] != knife:
        return f"You are not carrying {knife!r}."
    if not game.knives >> state.held & 1:
        return f"{knife} is no knife."
    return f"There is no {name!r} here that can be sliced."

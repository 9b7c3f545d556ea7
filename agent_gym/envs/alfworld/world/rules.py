"""One function a verb: check that the command applies, change the state, return the feedback.

A rule gets the state and the words after the verb and returns None when the command is not admissible. The
feedback describes the state after the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from agent_gym.envs.alfworld.world.gamefile import TextFormat
from agent_gym.envs.alfworld.world.texts import HELP

if TYPE_CHECKING:
    from agent_gym.envs.alfworld.world.engine import GameState

Rule = Callable[["GameState", str], str | None]


def _go(state: GameState, rest: str) -> str | None:
    if not rest.startswith("to "):
        return None
    game, names = state.game, state.vocabulary
    r = names.receptacle_number.get(rest[3:], -1)
    if r < 0:
        return None
    place = game.place_of[r]
    if place in (state.place, -1):  # staying put is no action, whichever receptacle there is named
        return None
    state.place = place
    if game.goal_lamps:
        state.won = state.goal_holds()
    where = names.receptacles[r] if state.text_format is TextFormat.V04 else names.locations[place]
    return f"You arrive at {where}. {state.receptacle_text(r)}"


def _open(state: GameState, rest: str) -> str | None:
    r = state.receptacle_here(rest)
    if r < 0 or state.reachable(r):
        return None
    state.opened |= 1 << r
    return f"You open the {rest}. {state.receptacle_text(r)}"


def _close(state: GameState, rest: str) -> str | None:
    r = state.receptacle_here(rest)
    if r < 0 or not (state.game.openable & state.opened) >> r & 1:
        return None
    state.opened &= ~(1 << r)
    return f"You close the {rest}."


def _take(state: GameState, rest: str) -> str | None:
    if state.held >= 0:
        return None
    name, _, place = rest.partition(" from ")
    r = state.receptacle_here(place)
    o = state.vocabulary.object_number.get(name, -1)
    if r < 0 or o < 0 or not state.reachable(r) or not state.game.pickupable >> o & 1:
        return None
    inside = state.contents[r]
    if o not in inside:
        return None
    at = inside.index(o)
    state.contents[r] = inside[:at] + inside[at + 1 :]
    state.held = o
    state.objects_at -= {(o, state.place)}
    state.taken_out |= {(o, r)}
    state.won = state.goal_holds()
    return f"You pick up the {name} from the {place}."


def _put_down(state: GameState, name: str, place: str) -> bool:
    r = state.receptacle_here(place)
    o = state.vocabulary.object_number.get(name, -1)
    if r < 0 or o < 0 or o != state.held or not state.reachable(r) or not state.game.accepts[r] >> o & 1:
        return False
    if o not in state.contents[r]:
        state.contents[r] = tuple(sorted((*state.contents[r], o)))
    state.held = -1
    state.objects_at |= {(o, state.place)}
    state.taken_out -= {(o, r)}
    state.won = state.goal_holds()
    return True


def _move(state: GameState, rest: str) -> str | None:
    name, _, place = rest.partition(" to ")
    return f"You move the {name} to the {place}." if _put_down(state, name, place) else None


def _put(state: GameState, rest: str) -> str | None:
    name, _, place = rest.partition(" in/on ")
    return f"You put the {name} in/on the {place}." if _put_down(state, name, place) else None


def _treated(state: GameState, rest: str, able: int, tools: int) -> tuple[int, str, str] | None:
    """Return the held object's bit, its name and the tool's, when the tool here can treat it."""
    name, _, place = rest.partition(" with ")
    r = state.receptacle_here(place)
    o = state.vocabulary.object_number.get(name, -1)
    if r < 0 or o < 0 or o != state.held or not able >> o & tools >> r & 1:
        return None
    return 1 << o, name, place


def _heat(state: GameState, rest: str) -> str | None:
    treated = _treated(state, rest, state.game.heatable, state.game.heaters)
    if treated is None:
        return None
    bit, name, place = treated
    state.hot |= bit
    state.cool &= ~bit
    state.won = state.goal_holds()
    return f"You heat the {name} using the {place}."


def _cool(state: GameState, rest: str) -> str | None:
    treated = _treated(state, rest, state.game.coolable, state.game.coolers)
    if treated is None:
        return None
    bit, name, place = treated
    state.cool |= bit
    state.hot &= ~bit
    state.won = state.goal_holds()
    return f"You cool the {name} using the {place}."


def _clean(state: GameState, rest: str) -> str | None:
    treated = _treated(state, rest, state.game.cleanable, state.washers)
    if treated is None:
        return None
    bit, name, place = treated
    state.clean |= bit
    state.won = state.goal_holds()
    return f"You clean the {name} using the {place}."


def _use(state: GameState, rest: str) -> str | None:
    game = state.game
    o = state.vocabulary.object_number.get(rest, -1)
    if o < 0 or not game.toggleable >> o & 1:
        return None
    if not any(o in state.contents[r] for r in game.here[state.place]):
        return None
    state.toggled |= 1 << o
    state.won = state.goal_holds()
    return f"You turn on the {rest}."  # also when it was on: the original's other branch cannot be reached


def _slice(state: GameState, rest: str) -> str | None:
    name, _, knife = rest.partition(" with ")
    game, numbers = state.game, state.vocabulary.object_number
    o, k = numbers.get(name, -1), numbers.get(knife, -1)
    if o < 0 or k < 0 or k != state.held or not game.knives >> k & game.sliceable >> o & 1:
        return None
    if (o, state.place) not in state.objects_at:
        return None
    state.sliced |= 1 << o
    return f"You sliced the {name} with the {knife}."


def _examine(state: GameState, rest: str) -> str | None:
    r = state.receptacle_here(rest)
    if r >= 0:
        return state.receptacle_text(r)
    o = state.vocabulary.object_number.get(rest, -1)
    return state.describe(o) if 0 <= o == state.held else None


def _look(state: GameState, rest: str) -> str | None:
    return None if rest else state.surroundings()


def _inventory(state: GameState, rest: str) -> str | None:
    if rest:
        return None
    if state.held < 0:
        return "You are not carrying anything."
    return f"You are carrying: {state.vocabulary.a_object[state.held]}."


def _help(state: GameState, rest: str) -> str | None:
    return None if rest else HELP


_COMMON: Final[dict[str, Rule]] = {
    "go": _go,
    "open": _open,
    "close": _close,
    "take": _take,
    "heat": _heat,
    "cool": _cool,
    "clean": _clean,
    "use": _use,
    "slice": _slice,
    "examine": _examine,
    "look": _look,
    "inventory": _inventory,
}

RULES: Final[dict[TextFormat, dict[str, Rule]]] = {
    TextFormat.V03: _COMMON | {"put": _put},
    TextFormat.V04: _COMMON | {"move": _move, "help": _help},
}
"""The rule of each verb, by text format."""

"""Fixed texts of the original game, which a compatible engine must reproduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent_gym.envs.alfworld.world.names import listing

TITLE: Final = "-= Welcome to TextWorld, ALFRED! =-"
NOTHING_HAPPENS: Final = "Nothing happens."
MIDDLE_OF_ROOM: Final = "You are in the middle of a room. Looking quickly around you, you see"

_COMMANDS: Final = (
    ("look", "look around your current location"),
    ("inventory", "check your current inventory"),
    ("go to (receptacle)", "move to a receptacle"),
    ("open (receptacle)", "open a receptacle"),
    ("close (receptacle)", "close a receptacle"),
    ("take (object) from (receptacle)", "take an object from a receptacle"),
    ("move (object) to (receptacle)", "place an object in or on a receptacle"),
    ("examine (something)", "examine a receptacle or an object"),
    ("use (object)", "use an object"),
    ("heat (object) with (receptacle)", "heat an object using a receptacle"),
    ("clean (object) with (receptacle)", "clean an object using a receptacle"),
    ("cool (object) with (receptacle)", "cool an object using a receptacle"),
    ("slice (object) with (object)", "slice an object using a sharp object"),
)


def _help() -> str:
    rows = []
    for form, meaning in _COMMANDS:
        width = 32 if form.startswith("move") else 34  # the original's own column slip
        rows.append("  " + f"{form}:".ljust(width) + meaning)
    return "\n".join(("Available commands:", *rows)) + "\n"


HELP: Final = _help()


def object_text(
    name: str,
    *,
    inner: Sequence[str] | None,
    hot: bool,
    cool: bool,
    clean: bool,
    sliced: bool,
    sliceable: bool,
    lit: bool,
) -> str:
    """Describe an object the way "examine" does: the first phrase that fits.

    Args:
        name: Display name.
        inner: Names with articles of what it holds, None for an object that holds nothing by nature.
        hot: Whether it is hot.
        cool: Whether it is cool.
        clean: Whether it is clean.
        sliced: Whether it is sliced.
        sliceable: Whether it can be sliced.
        lit: Whether it was switched on and can be.

    Returns:
        One sentence.
    """
    if inner is not None:
        return f"This is a normal {name}. In it, you see {listing(inner)}."
    state = ""
    if clean and hot:
        state = "hot and clean"
    elif clean and cool:
        state = "cool and clean"
    elif sliced and clean:
        state = "clean"
    elif hot:
        state = "hot"
    elif sliced and cool:
        state = "cool"
    elif clean:
        state = "clean"
    elif cool:
        state = "cold"  # only this phrase says cold
    if state:
        return f"This is a {state} {'sliced ' if sliced else ''}{name}."
    if lit:
        return f"This {name} is on."
    if sliceable and sliced:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."

"""Where data files named by users are looked up."""

from __future__ import annotations

import os
from pathlib import Path

from agent_gym.support.errors import DataError

DATA_VARIABLE = "AGENT_GYM_DATA"
"""Environment variable with a folder in which relative data names are also looked up."""
CACHE_VARIABLE = "AGENT_GYM_CACHE"
"""Environment variable that moves the folder in which what was worked out is kept."""


def cache_folder(name: str) -> Path:
    """Return a folder of the user's cache; it need not exist yet.

    Args:
        name: Name of the part, such as an environment's.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own) / name
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "agent-gym" / name


def resolve_data(name: str | Path, expected: str) -> Path:
    """Return the file or folder that a data argument names.

    A relative name is looked up in the working directory, then in the folder that `AGENT_GYM_DATA` names. The
    variable only resolves names given to data arguments: it never changes what an id means.

    Args:
        name: The argument's value.
        expected: What should be there, for the message.

    Raises:
        DataError: Nothing is there; the message lists the places looked in.
    """
    path = Path(name).expanduser()
    places = [path]
    root = os.environ.get(DATA_VARIABLE)
    if root and not path.is_absolute():
        places.append(Path(root).expanduser() / path)
    for place in places:
        if place.exists():
            return place
    looked = " and ".join(str(place.absolute()) for place in places)
    hint = "" if root else f" or set {DATA_VARIABLE} to the folder that holds it"
    raise DataError(f"no data at {looked}; expected {expected}. Give the right path{hint}.")

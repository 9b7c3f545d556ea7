"""Display names and the fixed texts built from them.

A name is the class of an id and a number. The class is the text before the first "_bar_", with "basin"
appended when the id names one (sinks and bathtubs). Within a class the ids are numbered downwards: the first
in order gets the highest number. That is why the original's lists count down.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ALWAYS = ("inventory", "look")


def display_names(ids: Iterable[str], shuffle: random.Random | None = None) -> dict[str, str]:
    """Name every id.

    Args:
        ids: All ids that occur in a game's facts, each once.
        shuffle: When given, the ids are shuffled before they are numbered, as the original's
            domain_randomization does with the global generator.

    Returns:
        Name by id. An id without "_bar_" keeps its text, followed by a blank, as in the original.
    """
    ordered = sorted(ids)
    if shuffle is not None:
        shuffle.shuffle(ordered)
    classes = [(i, _class_of(i)) for i in ordered]
    left = Counter(kind for _, kind in classes if kind is not None)
    names: dict[str, str] = {}
    for i, kind in classes:
        if kind is None:
            names[i] = f"{_demangle(i)} "
        else:
            names[i] = f"{kind} {left[kind]}"
            left[kind] -= 1
    return names


def listing(parts: Sequence[str]) -> str:
    """Join names the way the original's lists do: "nothing", "a X", "a X, and a Y", "a X, a Y, and a Z"."""
    if not parts:
        return "nothing"
    if len(parts) == 1:
        return parts[0]
    return ", ".join(parts[:-1]) + ", and " + parts[-1]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Names of one game's entities by number, and what follows from the names alone.

    Attributes:
        objects: Object names.
        receptacles: Receptacle names.
        locations: Location names, which text format 0.3 shows on arrival.
        a_object: Object names with the article, which is always "a".
        object_number: Number of an object by name.
        receptacle_number: Number of a receptacle by name.
        standing: For each location, the sorted commands that depend on the place alone: examine, go to,
            inventory, look.
        here: For each location, its receptacles in the order of their names.
    """

    objects: tuple[str, ...]
    receptacles: tuple[str, ...]
    locations: tuple[str, ...]
    a_object: tuple[str, ...]
    object_number: dict[str, int]
    receptacle_number: dict[str, int]
    standing: tuple[tuple[str, ...], ...]
    here: tuple[tuple[int, ...], ...]

    @classmethod
    def build(
        cls,
        objects: tuple[str, ...],
        receptacles: tuple[str, ...],
        locations: tuple[str, ...],
        here: tuple[tuple[int, ...], ...],
        place_of: tuple[int, ...],
    ) -> Vocabulary:
        """Make the vocabulary of a game.

        Args:
            objects: Object names by number.
            receptacles: Receptacle names by number.
            locations: Location names by number.
            here: Receptacles at each location.
            place_of: Location of each receptacle, -1 for none.

        Returns:
            The vocabulary.
        """
        travel = [(f"go to {name}", place) for name, place in zip(receptacles, place_of, strict=True)]
        standing = []
        for place, around in enumerate(here):
            commands = [go for go, end in travel if end not in (place, -1)]
            commands += [f"examine {receptacles[r]}" for r in around]
            standing.append(tuple(sorted({*commands, *_ALWAYS})))
        return cls(
            objects=objects,
            receptacles=receptacles,
            locations=locations,
            a_object=tuple(f"a {name}" for name in objects),
            object_number={name: n for n, name in enumerate(objects)},
            receptacle_number={name: n for n, name in enumerate(receptacles)},
            standing=tuple(standing),
            here=tuple(tuple(sorted(around, key=receptacles.__getitem__)) for around in here),
        )


def _class_of(identifier: str) -> str | None:
    kind, bar, _ = identifier.partition("_bar_")
    if not bar:
        return None
    return _demangle(kind) + ("basin" if "basin" in identifier else "")


def _demangle(identifier: str) -> str:
    for mangled, plain in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        identifier = identifier.replace(mangled, plain)
    return identifier

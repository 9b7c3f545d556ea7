"""The six goal shapes of ALFWorld, recognised from the PDDL goal itself.

The original engine hands the goal to a planner's translator as a derived predicate. All games use one of six
shapes, so the goal is flattened to a set of atoms and compared with each shape as a whole: an extra or a
missing atom is an unknown shape, never a silent approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent_gym.envs.alfworld.world.pddl import SExpr
from agent_gym.support.errors import DataError


class TaskType(StrEnum):
    """Task types, named as the data set's folders name them, in the order of its ids 1 to 6."""

    PLACE = "pick_and_place_simple"
    LIGHT = "look_at_obj_in_light"
    CLEAN = "pick_clean_then_place_in_recep"
    HEAT = "pick_heat_then_place_in_recep"
    COOL = "pick_cool_then_place_in_recep"
    TWO = "pick_two_obj_and_place"


@dataclass(frozen=True)
class Goal:
    """What wins a game.

    Attributes:
        task_type: Shape of the goal.
        object_type: Type of the object to place or to look at, e.g. "mugtype".
        target_type: Type of the receptacle to place it in, or of the lamp for `TaskType.LIGHT`.
    """

    task_type: TaskType
    object_type: str
    target_type: str


_NEEDS: Final = {
    TaskType.CLEAN: ("cleanable", "isclean"),
    TaskType.HEAT: ("heatable", "ishot"),
    TaskType.COOL: ("coolable", "iscool"),
}

_Atom = tuple[str, ...]


def compile_goal(expression: SExpr) -> Goal:
    """Recognise a goal expression.

    Args:
        expression: The problem's goal, lower-cased.

    Returns:
        The goal.

    Raises:
        DataError: The expression is none of the six shapes.
    """
    atoms = frozenset(_flatten(expression))
    for match in (_match_place, _match_two, _match_light):
        goal = match(atoms)
        if goal is not None:
            return goal
    shown = ", ".join(sorted(" ".join(atom) for atom in atoms))
    raise DataError(
        f"goal is none of the six ALFWorld shapes ({', '.join(TaskType)}); its atoms are: {shown[:400]}"
    )


def _flatten(expression: SExpr) -> list[_Atom]:
    """Return the atoms of nested conjunctions and existentials; each quantifier renames its variables."""
    atoms: list[_Atom] = []
    count = 0
    stack: list[tuple[SExpr, dict[str, str]]] = [(expression, {})]
    while stack:
        node, scope = stack.pop()
        if not isinstance(node, list) or not node or not isinstance(node[0], str):
            raise DataError("goal holds something that is not a bracketed atom")
        head, rest = node[0], node[1:]
        if head == "and":
            stack.extend((part, scope) for part in reversed(rest))
        elif head == "exists" and len(rest) == 2 and isinstance(rest[0], list):
            count += 1
            names = {word: f"{word}#{count}" for word in rest[0] if isinstance(word, str) and word[:1] == "?"}
            stack.append((rest[1], scope | names))
        elif head == "not" and len(rest) == 1 and isinstance(rest[0], list) and rest[0][:1] == ["="]:
            atoms.append(("differ", *sorted(_words(rest[0][1:], scope))))
        elif all(isinstance(word, str) for word in rest):
            atoms.append((head, *_words(rest, scope)))
        else:
            raise DataError(f"goal uses {head!r} in a way that none of the six ALFWorld shapes does")
    return atoms


def _words(nodes: list[SExpr], scope: dict[str, str]) -> list[str]:
    return [scope.get(word, word) for word in nodes if isinstance(word, str)]


def _only(atoms: frozenset[_Atom], head: str, count: int = 1) -> list[_Atom] | None:
    """Return the atoms of one predicate in order, or None when their number or arity is another."""
    found = sorted(atom for atom in atoms if atom[0] == head)
    fits = len(found) == count and all(len(atom) == 3 and atom[1][:1] == "?" for atom in found)
    return found if fits else None


def _match_place(atoms: frozenset[_Atom]) -> Goal | None:
    objects, receptacles = _only(atoms, "objecttype"), _only(atoms, "receptacletype")
    if objects is None or receptacles is None:
        return None
    (_, thing, object_type), (_, place, target_type) = objects[0], receptacles[0]
    rest = atoms - {objects[0], receptacles[0]}
    inside = ("inreceptacle", thing, place)
    if rest == {inside}:
        return Goal(TaskType.PLACE, object_type, target_type)
    for task_type, (able, done) in _NEEDS.items():
        if rest == {inside, (able, thing), (done, thing)}:
            return Goal(task_type, object_type, target_type)
    return None


def _match_two(atoms: frozenset[_Atom]) -> Goal | None:
    objects, receptacles = _only(atoms, "objecttype", 2), _only(atoms, "receptacletype")
    if objects is None or receptacles is None or objects[0][2] != objects[1][2]:
        return None
    one, two = objects[0][1], objects[1][1]
    _, place, target_type = receptacles[0]
    rest = atoms - {*objects, receptacles[0]}
    if rest == {("inreceptacle", one, place), ("inreceptacle", two, place), ("differ", *sorted((one, two)))}:
        return Goal(TaskType.TWO, objects[0][2], target_type)
    return None


def _match_light(atoms: frozenset[_Atom]) -> Goal | None:
    objects, held = _only(atoms, "objecttype", 2), _only(atoms, "holds")
    inside, here = _only(atoms, "inreceptacle"), _only(atoms, "atlocation")
    if objects is None or held is None or inside is None or here is None:
        return None
    types = {thing: kind for _, thing, kind in objects}
    lamp, place, thing = inside[0][1], inside[0][2], held[0][2]
    if set(types) != {lamp, thing} or lamp == thing:
        return None
    rest = atoms - {*objects, held[0], inside[0], here[0]}
    location = here[0][2]
    if rest == {("toggleable", lamp), ("istoggled", lamp), ("receptacleatlocation", place, location)}:
        return Goal(TaskType.LIGHT, types[thing], types[lamp])
    return None

"""Seeded households: rooms of any size with a task that can be solved by construction.

A household is drawn as a plan (what stands where), which `household_text` writes as a PDDL problem with ids
shaped like the benchmark's, so that the same engine, and the stock one, run it. A record has the form of a
game file's content: one loader serves both.

Solvable by construction: the thing the task needs lies in a receptacle the agent can open, another receptacle
that the task names accepts it, the tool stands in the room, and nothing is in hand.

Splits differ by content, not by seed: the hash of what a player can see (furniture, doors, what lies where,
the goal) decides whether a household may serve for training, validation or test.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from dataclasses import astuple, dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from agent_gym.envs.alfworld.data.household_data import (
    FURNISHING,
    FURNITURE,
    KINDS_IN,
    LAMP,
    LAMP_STANDS,
    SINGLES,
    THINGS,
    Room,
    Thing,
)
from agent_gym.envs.alfworld.data.household_text import (
    Household,
    PlacedFurniture,
    PlacedThing,
    goal_sentence,
    problem_text,
)
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.errors import ConfigError

_MAX_DRAWS: Final = 1000
"""Households drawn for one split before giving up; the rarest split takes 10 on average."""


class GeneratedSplit(StrEnum):
    """Splits of generated households, disjoint by content."""

    TRAIN = "train"
    """80 % of all households."""
    VALID = "valid"
    """10 %."""
    TEST = "test"
    """10 %."""


@dataclass(frozen=True)
class HouseholdSpec:
    """What kind of household to draw.

    Attributes:
        receptacles: Number of receptacles, at least 3; real rooms have 6 to 54.
        objects: Number of movable objects, at least 2; real rooms have 17 to 72.
        distractors: Further objects of the same kind as the task's (another food for a food).
        openable: Share of receptacles with a door among those the task does not fix; None takes the room's
            usual share.
        hidden: Chance that an object of the task starts behind a closed door, where there is one to hold it.
        shared_locations: Chance that a receptacle stands at the same location as an earlier one.
        task_types: Task types to draw from; empty means all six.
        rooms: Kinds of rooms to draw from; empty means all four.
    """

    receptacles: int = 22
    objects: int = 40
    distractors: int = 0
    openable: float | None = None
    hidden: float = 0.4
    shared_locations: float = 0.2
    task_types: tuple[TaskType, ...] = ()
    rooms: tuple[Room, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("receptacles", 3), ("objects", 2), ("distractors", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"{name} must be a whole number, got {value!r}")
            if not least <= value <= 1000:
                raise ConfigError(f"{name} must be from {least} to 1000, got {value}")
        for name in ("openable", "hidden", "shared_locations"):
            share = getattr(self, name)
            if share is not None and (not isinstance(share, int | float) or not 0 <= share <= 1):
                raise ConfigError(f"{name} must be a share from 0 to 1, got {share!r}")
        if not self.choices():
            raise ConfigError(
                f"no room of {[str(r) for r in self.rooms]} has tasks of {[str(t) for t in self.task_types]}"
            )

    def choices(self) -> tuple[tuple[TaskType, Room], ...]:
        """Return the (task type, room) pairs that this spec allows."""
        return tuple(
            (task_type, room)
            for task_type in self.task_types or tuple(TaskType)
            for room in self.rooms or tuple(Room)
            if _targets(task_type, room)
        )

    def digest(self) -> str:
        """Return a short name that is equal for equal specs."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:8]


def household_from_seed(spec: HouseholdSpec, split: GeneratedSplit, seed: int) -> dict[str, Any]:
    """Draw a household.

    Args:
        spec: What kind of household.
        split: Which split it must belong to.
        seed: Any number; the same one gives the same household on every machine.

    Returns:
        A game record: "task_id", "task_type", "scene", "split", "pddl_problem", "task" (the goal sentence),
        "pddl_params" (as in the benchmark's traj_data.json), and "solvable", which is always true.

    Raises:
        ConfigError: The spec is so narrow that no household of this split was found.
    """
    for draw in range(_MAX_DRAWS):
        # A text seed goes through SHA-512: equal on all machines and unrelated between neighbours.
        rng = random.Random(f"alfworld household {seed} {draw}")
        household = _draw(spec, rng)
        if content_split(household) is split:
            break
    else:
        raise ConfigError(
            f"none of {_MAX_DRAWS} households of {spec} belongs to split {split!r}; allow more receptacles, "
            "objects or task types"
        )
    target = household.target
    light = household.task_type is TaskType.LIGHT
    folder = f"{household.task_type}-{household.thing}-None-{target}-{household.room}"
    trial = f"trial_{spec.digest()}_{seed}"
    return {
        "task_id": f"{split}/{folder}/{trial}",
        "task_type": str(household.task_type),
        "scene": str(household.room),
        "split": str(split),
        "pddl_problem": problem_text(household, f"plan_{trial}"),
        "task": goal_sentence(household, rng),
        "pddl_params": {
            "object_target": household.thing,
            "parent_target": "" if light else target,
            "toggle_target": target if light else "",
            "mrecep_target": "",
            "object_sliced": False,
        },
        "solvable": True,
    }


def content_split(household: Household) -> GeneratedSplit:
    """Return the split a household belongs to by what a player can see of it."""
    inside: dict[int, list[str]] = {}
    for thing in household.things:
        inside.setdefault(thing.inside, []).append(thing.kind)
    places: dict[int, list[tuple[str, bool, list[str]]]] = {}
    for number, item in enumerate(household.furniture):
        row = (item.kind, item.door, sorted(inside.get(number, ())))
        places.setdefault(item.place, []).append(row)
    # Sorted within and between places: coordinates and order of drawing make no difference.
    seen = sorted(sorted(rows) for rows in places.values())
    content = json.dumps([str(household.task_type), household.thing, household.target, seen])
    bucket = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8]) % 10
    return {0: GeneratedSplit.TEST, 1: GeneratedSplit.VALID}.get(bucket, GeneratedSplit.TRAIN)


_TOOLS: Final = {TaskType.CLEAN: "SinkBasin", TaskType.HEAT: "Microwave", TaskType.COOL: "Fridge"}


def _suits(thing: Thing, task_type: TaskType) -> bool:
    """Return whether a thing can undergo what a task type asks for."""
    able = {TaskType.CLEAN: thing.cleanable, TaskType.HEAT: thing.heatable, TaskType.COOL: thing.coolable}
    return able.get(task_type, True)


@cache
def _targets(task_type: TaskType, room: Room) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the possible (thing, target, classes where the thing can start) of a task type in a room."""
    classes = FURNISHING[room]
    tool = _TOOLS.get(task_type)
    if tool is not None and tool not in classes:
        return ()
    targets = tuple(classes)
    if task_type is TaskType.LIGHT:
        if not any(stand in classes for stand in LAMP_STANDS):
            return ()
        targets = (LAMP,)
    found = []
    for name, thing in THINGS.items():
        if thing.kind not in KINDS_IN[room] or not _suits(thing, task_type):
            continue
        for target in targets:
            if target == tool or (target != LAMP and name not in FURNITURE[target].holds):
                continue
            sources = tuple(c for c in classes if c != target and name in FURNITURE[c].holds)
            if sources:
                found.append((name, target, sources))
    return tuple(found)


def _draw(spec: HouseholdSpec, rng: random.Random) -> Household:
    choices = spec.choices()
    task_type = rng.choice(tuple(dict.fromkeys(task_type for task_type, _ in choices)))
    room = rng.choice(tuple(room for kind, room in choices if kind is task_type))
    thing, target, sources = rng.choice(_targets(task_type, room))
    source = rng.choice(sources)
    needed = [rng.choice([s for s in LAMP_STANDS if s in FURNISHING[room]]) if target == LAMP else target]
    needed += [c for c in (_TOOLS.get(task_type), source) if c is not None and c not in needed]
    furniture = _furnish(spec, room, needed, rng)
    things = [PlacedThing(LAMP, 0)] if target == LAMP else []
    copies = 2 if task_type is TaskType.TWO else 1
    for _ in range(copies):
        things.append(PlacedThing(thing, _hide(spec, thing, target, furniture, rng)))
    kind = THINGS[thing].kind
    family = [n for n, t in THINGS.items() if t.kind == kind and n != thing]
    allowed = [n for n, t in THINGS.items() if t.kind in KINDS_IN[room]]
    for names, count in ((family, spec.distractors), (allowed, spec.objects - copies)):
        homes = {name: _homes(name, thing, target, furniture) for name in names}
        possible = [name for name in names if homes[name]]
        for _ in range(count if possible else 0):
            name = rng.choice(possible)
            things.append(PlacedThing(name, rng.choice(homes[name])))
    return Household(
        task_type,
        room,
        thing,
        target=target,
        furniture=tuple(furniture),
        things=tuple(things),
        layout_seed=rng.getrandbits(64),
    )


def _furnish(spec: HouseholdSpec, room: Room, needed: list[str], rng: random.Random) -> list[PlacedFurniture]:
    """Draw the receptacles: those the task needs first, then others by the room's weights."""
    kinds = list(needed)
    weights = FURNISHING[room]
    counts = Counter(kinds)
    while len(kinds) < spec.receptacles:
        names = [name for name in weights if name not in SINGLES or not counts[name]]
        if spec.openable is not None:
            doors = rng.random() < spec.openable
            names = [name for name in names if (FURNITURE[name].doors > 0) == doors] or names
        kind = rng.choices(names, [weights[name] for name in names])[0]
        kinds.append(kind)
        counts[kind] += 1
    furniture: list[PlacedFurniture] = []
    for number, kind in enumerate(kinds):
        door = rng.random() < FURNITURE[kind].doors
        if spec.openable is not None and number >= len(needed):
            door = FURNITURE[kind].doors > 0
        shared = bool(furniture) and rng.random() < spec.shared_locations
        place = rng.choice(furniture).place if shared else number
        furniture.append(PlacedFurniture(kind, place, door))
    return furniture


def _homes(name: str, thing: str, target: str, furniture: list[PlacedFurniture]) -> list[int]:
    """Return where a thing may start; the task's thing never starts where it has to go."""
    return [
        number
        for number, item in enumerate(furniture)
        if name in FURNITURE[item.kind].holds and not (name == thing and item.kind == target)
    ]


def _hide(
    spec: HouseholdSpec, thing: str, target: str, furniture: list[PlacedFurniture], rng: random.Random
) -> int:
    homes = _homes(thing, thing, target, furniture)
    hidden = rng.random() < spec.hidden
    fitting = [number for number in homes if furniture[number].door == hidden]
    return rng.choice(fitting or homes)


TINY: Final = HouseholdSpec(receptacles=5, objects=6, hidden=0.3, shared_locations=0.0)
"""A household small enough for a tiny policy to learn."""

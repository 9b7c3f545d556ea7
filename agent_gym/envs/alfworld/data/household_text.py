"""A household plan, and the PDDL problem and sentence that describe it.

Ids and facts have the shape and order of the benchmark's problems, so that engines treat both alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from agent_gym.envs.alfworld.data.household_data import FURNITURE, LAMP, THINGS, Room
from agent_gym.envs.alfworld.world.goals import TaskType


@dataclass(frozen=True)
class PlacedFurniture:
    """A receptacle: its class, the number of its location, and whether it has a door, closed at first."""

    kind: str
    place: int
    door: bool


@dataclass(frozen=True)
class PlacedThing:
    """An object: its class and the number of the receptacle it starts in."""

    kind: str
    inside: int


@dataclass(frozen=True)
class Household:
    """A room with a task.

    Attributes:
        task_type: Type of the task.
        room: Kind of room.
        thing: Class of the object the task is about.
        target: Class of the receptacle to put it in, or of the lamp to look at it under.
        furniture: Receptacles.
        things: Objects; lamps among them are fixtures.
        layout_seed: Decides the coordinates in the ids, and with them the numbers in the names.
    """

    task_type: TaskType
    room: Room
    thing: str
    target: str
    furniture: tuple[PlacedFurniture, ...]
    things: tuple[PlacedThing, ...]
    layout_seed: int


_SENTENCES: Final = {
    TaskType.PLACE: ("put a {thing} in {target}", "put some {thing} on {target}"),
    TaskType.LIGHT: ("examine the {thing} with the {target}", "look at {thing} under the {target}"),
    TaskType.CLEAN: ("put a clean {thing} in {target}", "clean some {thing} and put it in {target}"),
    TaskType.HEAT: ("put a hot {thing} in {target}", "heat some {thing} and put it in {target}"),
    TaskType.COOL: ("put a cool {thing} in {target}", "cool some {thing} and put it in {target}"),
    TaskType.TWO: ("put two {thing} in {target}", "find two {thing} and put them in {target}"),
}

_NEEDS: Final = {
    TaskType.PLACE: "",
    TaskType.CLEAN: "(cleanable ?o) (isClean ?o) ",
    TaskType.HEAT: "(heatable ?o) (isHot ?o) ",
    TaskType.COOL: "(coolable ?o) (isCool ?o) ",
}

# The domain names these types in its actions, so they are declared also where no such thing is.
_DOMAIN_RTYPES: Final = ("FridgeType", "MicrowaveType", "SinkBasinType", "SinkType")
_DOMAIN_OTYPES: Final = ("ButterKnifeType", "KnifeType")

_SPAN: Final = 8.0
"""Half the width of a room, in metres; wide enough for a thousand distinct coordinates."""


def goal_sentence(household: Household, rng: random.Random) -> str:
    """Return one of the two sentences of the household's task type."""
    template = rng.choice(_SENTENCES[household.task_type])
    return template.format(thing=household.thing.lower(), target=household.target.lower())


def problem_text(household: Household, name: str) -> str:
    """Write a household as a PDDL problem.

    Args:
        household: The plan.
        name: Name of the problem.

    Returns:
        The text of a problem of the ALFRED domain.
    """
    rng = random.Random(f"layout {household.layout_seed}")
    taken: set[str] = set()
    receptacles = [_fresh_id(item.kind, rng, taken) for item in household.furniture]
    things = [_fresh_id(thing.kind, rng, taken) for thing in household.things]
    locations = {
        place: _fresh_location(rng, taken) for place in dict.fromkeys(f.place for f in household.furniture)
    }
    start = _fresh_location(rng, taken)
    rtypes = sorted({f"{item.kind}Type" for item in household.furniture} | set(_DOMAIN_RTYPES))
    otypes = sorted({f"{thing.kind}Type" for thing in household.things} | set(_DOMAIN_OTYPES))
    objects = [
        "agent1 - agent",
        *(f"{otype} - otype" for otype in otypes),
        *(f"{rtype} - rtype" for rtype in rtypes),
        *(f"{thing} - object" for thing in things),
        *(f"{receptacle} - receptacle" for receptacle in receptacles),
        *(f"{location} - location" for location in (*locations.values(), start)),
    ]
    facts = _facts(household, receptacles, things, locations, start)
    return "\n".join(
        (
            f"(define (problem {name})",
            "(:domain alfred)",
            "(:objects",
            *(f"    {line}" for line in objects),
            ")",
            "(:init",
            *(f"    ({fact})" for fact in facts),
            ")",
            f"(:goal {_goal(household)})",
            ")",
            "",
        )
    )


def _facts(
    household: Household, receptacles: list[str], things: list[str], locations: dict[int, str], start: str
) -> list[str]:
    furniture = household.furniture
    placed = list(zip(things, household.things, strict=True))
    standing = list(zip(receptacles, furniture, strict=True))
    kinds = sorted({thing.kind for thing in household.things} - {LAMP})
    facts = [f"receptacleType {r} {item.kind}Type" for r, item in standing]
    facts += [f"objectType {o} {thing.kind}Type" for o, thing in placed]
    facts += [
        f"canContain {kind}Type {name}Type"
        for kind in sorted({item.kind for item in furniture})
        for name in kinds
        if name in FURNITURE[kind].holds
    ]
    movable = [(o, THINGS[thing.kind]) for o, thing in placed if thing.kind != LAMP]
    facts += [f"pickupable {o}" for o, _ in movable]
    facts += [f"isReceptacleObject {o}" for o, thing in movable if thing.holder]
    facts += [f"openable {r}" for r, item in standing if item.door]
    facts.append(f"atLocation agent1 {start}")
    facts += [f"cleanable {o}" for o, thing in movable if thing.cleanable]
    facts += [f"heatable {o}" for o, thing in movable if thing.heatable]
    facts += [f"coolable {o}" for o, thing in movable if thing.coolable]
    facts += [f"toggleable {o}" for o, thing in placed if thing.kind == LAMP]
    facts += [f"sliceable {o}" for o, thing in movable if thing.sliceable]
    facts += [f"inReceptacle {o} {receptacles[thing.inside]}" for o, thing in placed]
    facts += [f"receptacleAtLocation {r} {locations[item.place]}" for r, item in standing]
    facts += [f"objectAtLocation {o} {locations[furniture[thing.inside].place]}" for o, thing in placed]
    return facts


def _goal(household: Household) -> str:
    thing, target = f"{household.thing}Type", f"{household.target}Type"
    if household.task_type is TaskType.LIGHT:
        return (
            "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?ot {target}) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) "
            "(atLocation ?a ?l) (inReceptacle ?ot ?r))) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {thing}) (holds ?a ?o))))"
        )
    if household.task_type is TaskType.TWO:
        return (
            "(and (exists (?r - receptacle) (exists (?o1 - object) (and "
            f"(objectType ?o1 {thing}) (receptacleType ?r {target}) (inReceptacle ?o1 ?r) "
            f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {thing}) "
            f"(receptacleType ?r {target}) (inReceptacle ?o2 ?r)))))))"
        )
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and {_NEEDS[household.task_type]}"
        f"(objectType ?o {thing}) (receptacleType ?r {target}) (inReceptacle ?o ?r)))))"
    )


def _fresh_id(kind: str, rng: random.Random, taken: set[str]) -> str:
    """Return an unused id, as the simulator forms it: class and coordinates, with the signs spelled out."""
    basin = FURNITURE[kind].prefix if kind in FURNITURE else ""
    while True:
        metres = (rng.uniform(-_SPAN, _SPAN), rng.uniform(0.0, 2.0), rng.uniform(-_SPAN, _SPAN))
        spelled = "_bar_".join(
            f"_{'minus' if m < 0 else 'plus'}_{abs(m):05.2f}".replace(".", "_dot_") for m in metres
        )
        identifier = f"{basin or kind}_bar_{spelled}" + (f"_bar_{kind}" if basin else "")
        if identifier not in taken:
            taken.add(identifier)
            return identifier


def _fresh_location(rng: random.Random, taken: set[str]) -> str:
    """Return an unused location id: position in steps of 0.25 m, quarter turn, camera angle in degrees."""
    reach = int(_SPAN / 0.25)
    while True:
        numbers = (
            rng.randint(-reach, reach),
            rng.randint(-reach, reach),
            rng.randrange(4),
            rng.choice((0, 30, 60)),
        )
        identifier = "loc" + "".join(f"_bar_{str(n).replace('-', '_minus_')}" for n in numbers)
        if identifier not in taken:
            taken.add(identifier)
            return identifier

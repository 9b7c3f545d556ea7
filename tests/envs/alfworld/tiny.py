"""A hand-made kitchen in which every odd rule of the game can be seen."""

from __future__ import annotations

from typing import Any

from agent_gym.envs.alfworld.world.engine import FeedbackStyle, GameState
from agent_gym.envs.alfworld.world.game import compile_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat

RECEPTACLES = {
    # id: (type, location, has a door)
    "Cabinet_bar_a": ("CabinetType", "loc_bar_1", True),
    "Cabinet_bar_b": ("CabinetType", "loc_bar_2", True),
    "CounterTop_bar_a": ("CounterTopType", "loc_bar_2", False),
    "Sink_bar_a_bar_SinkBasin": ("SinkBasinType", "loc_bar_2", False),
    "Microwave_bar_a": ("MicrowaveType", "loc_bar_3", True),
    "Fridge_bar_a": ("FridgeType", "loc_bar_4", True),
    "Desk_bar_a": ("DeskType", "loc_bar_5", False),
    "StoveBurner_bar_a": ("StoveBurnerType", "loc_bar_6", False),
    "StoveBurner_bar_b": ("StoveBurnerType", "loc_bar_6", False),
}

OBJECTS = {
    # id: (type, receptacles, properties)
    "Mug_bar_a": ("MugType", ["Cabinet_bar_a"], "pickupable cleanable heatable coolable isReceptacleObject"),
    "Mug_bar_b": ("MugType", ["CounterTop_bar_a"], "pickupable cleanable heatable coolable isReceptacleObject"),
    "Knife_bar_a": ("KnifeType", ["CounterTop_bar_a"], "pickupable cleanable"),
    "Apple_bar_a": ("AppleType", ["CounterTop_bar_a"], "pickupable cleanable heatable coolable sliceable"),
    "Book_bar_a": ("BookType", ["Desk_bar_a"], "pickupable"),
    "Lamp_bar_a": ("DeskLampType", ["Desk_bar_a"], "toggleable"),
    "Pan_bar_a": ("PanType", ["StoveBurner_bar_a", "StoveBurner_bar_b"], "pickupable cleanable coolable"),
}

HOLDS = {
    "CabinetType": "MugType PanType KnifeType AppleType",
    "CounterTopType": "MugType PanType KnifeType AppleType BookType",
    "SinkBasinType": "MugType PanType KnifeType AppleType",
    "MicrowaveType": "MugType AppleType",
    "FridgeType": "MugType AppleType PanType",
    "DeskType": "MugType BookType",
    "StoveBurnerType": "PanType",
}

PLACE = """(exists (?r - receptacle) (exists (?o - object)
    (and (inReceptacle ?o ?r) (objectType ?o {thing}) (receptacleType ?r {target}) {extra})))"""
TWO = """(exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {thing}) (receptacleType ?r {target})
    (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {thing})
    (receptacleType ?r {target}) (inReceptacle ?o2 ?r))))))"""
LIGHT = """(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
    (and (objectType ?ot {target}) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
    (atLocation ?a ?l) (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent) (and (objectType ?o {thing}) (holds ?a ?o))))"""

GOALS = {
    "place": PLACE.format(thing="MugType", target="DeskType", extra=""),
    "clean": PLACE.format(thing="AppleType", target="CabinetType", extra="(cleanable ?o) (isClean ?o)"),
    "heat": PLACE.format(thing="MugType", target="DeskType", extra="(heatable ?o) (isHot ?o)"),
    "cool": PLACE.format(thing="PanType", target="StoveBurnerType", extra="(coolable ?o) (isCool ?o)"),
    "two": TWO.format(thing="MugType", target="DeskType"),
    "light": LIGHT.format(thing="BookType", target="DeskLampType"),
}


def problem(goal: str = GOALS["place"], extra_facts: str = "") -> str:
    """Return the kitchen as PDDL."""
    facts, names = ["(atLocation agent1 loc_bar_0)"], ["agent1 - agent", "loc_bar_0 - location"]
    names += [f"{location} - location" for location in sorted({row[1] for row in RECEPTACLES.values()})]
    names += [f"{kind} - rtype" for kind in HOLDS]
    names += [f"{kind} - otype" for kind in sorted({row[0] for row in OBJECTS.values()})]
    for name, (kind, location, door) in RECEPTACLES.items():
        names.append(f"{name} - receptacle")
        facts += [f"(receptacleType {name} {kind})", f"(receptacleAtLocation {name} {location})"]
        facts += [f"(openable {name})"] if door else []
    for kind, held in HOLDS.items():
        facts += [f"(canContain {kind} {thing})" for thing in held.split()]
    for name, (kind, inside, properties) in OBJECTS.items():
        names.append(f"{name} - object")
        facts += [f"(objectType {name} {kind})"]
        facts += [f"({word} {name})" for word in properties.split()]
        facts += [f"(inReceptacle {name} {receptacle})" for receptacle in inside]
        facts.append(f"(objectAtLocation {name} {RECEPTACLES[inside[0]][1]})")
    lines = (" ".join(names), "\n".join(facts) + extra_facts, goal)
    return "(define (problem tiny) (:domain alfred) (:objects {}) (:init {}) (:goal (and {})))".format(*lines)


def content(goal: str = GOALS["place"], extra_facts: str = "") -> dict[str, Any]:
    """Return the kitchen as a game record."""
    return {"pddl_problem": problem(goal, extra_facts), "task": "put a mug in desk", "solvable": True}


def start(
    goal: str = "place",
    *commands: str,
    text_format: TextFormat | None = None,
    feedback: FeedbackStyle = FeedbackStyle.ORIGINAL,
    extra_facts: str = "",
) -> GameState:
    """Return a running game after some commands, each of which must be admissible."""
    game = compile_game(GameRecord.from_mapping(content(GOALS[goal], extra_facts)))
    state = GameState(game, text_format, feedback=feedback)
    for command in commands:
        assert command in state.admissible(), (command, state.admissible())
        state.step(command)
    return state

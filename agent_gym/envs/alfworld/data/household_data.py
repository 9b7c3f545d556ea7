"""What stands in generated households: rooms, furniture, things, and what may lie where.

These are the project's own tables, with the class names of the benchmark so that texts look alike. They are
smaller and more regular than the benchmark's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Room(StrEnum):
    """Kinds of generated rooms."""

    KITCHEN = "kitchen"
    LIVING_ROOM = "livingroom"
    BEDROOM = "bedroom"
    BATHROOM = "bathroom"


@dataclass(frozen=True)
class Thing:
    """A class of movable objects.

    Attributes:
        name: Class name.
        kind: Family of look-alikes, from which distractors are drawn.
        cleanable: Whether a sink basin cleans it.
        heatable: Whether a microwave heats it.
        coolable: Whether a fridge cools it.
        sliceable: Whether a knife slices it.
        holder: Whether it can hold things itself.
    """

    name: str
    kind: str
    cleanable: bool = False
    heatable: bool = False
    coolable: bool = False
    sliceable: bool = False
    holder: bool = False


@dataclass(frozen=True)
class Furniture:
    """A class of receptacles.

    Attributes:
        name: Class name.
        holds: Names of the things that may be put in or on it.
        doors: Share of such receptacles that have a door.
        prefix: First part of an id; the class name but for basins.
    """

    name: str
    holds: frozenset[str]
    doors: float = 0.0
    prefix: str = ""


def _things(kind: str, names: str, **properties: bool) -> list[Thing]:
    return [Thing(name, kind, **properties) for name in names.split()]


THINGS: Final[dict[str, Thing]] = {
    thing.name: thing
    for thing in (
        *_things("food", "Apple Egg Potato Tomato", cleanable=True, heatable=True, coolable=True, sliceable=True),
        *_things("food", "Lettuce", cleanable=True, coolable=True, sliceable=True),
        *_things("food", "Bread", heatable=True, coolable=True, sliceable=True),
        *_things("tableware", "Cup Mug Plate", cleanable=True, heatable=True, coolable=True, holder=True),
        *_things("tableware", "Bowl", cleanable=True, coolable=True, holder=True),
        *_things("cookware", "Pan Pot", cleanable=True, coolable=True, holder=True),
        *_things("cookware", "Kettle", cleanable=True),
        *_things("cutlery", "ButterKnife Fork Knife Ladle Spatula Spoon", cleanable=True),
        *_things("shakers", "PepperShaker SaltShaker"),
        *_things("bottles", "Glassbottle SoapBottle SprayBottle"),
        *_things("bottles", "WineBottle", coolable=True),
        *_things("washing", "Cloth DishSponge SoapBar", cleanable=True),
        *_things("washing", "HandTowel TissueBox ToiletPaper"),
        *_things("writing", "Book Newspaper Pen Pencil"),
        *_things("devices", "AlarmClock CellPhone Laptop RemoteControl"),
        *_things("valuables", "CD CreditCard KeyChain Watch"),
        *_things("ornaments", "Candle Statue Vase"),
        *_things("sports", "BaseballBat BasketBall TennisRacket"),
        *_things("bulky", "Box", holder=True),
        *_things("bulky", "Pillow"),
    )
}
"""Movable objects by class name."""

LAMP: Final = "DeskLamp"
"""The class of lamps; lamps are fixtures and stand where `LAMP_STANDS` says."""

LAMP_STANDS: Final = ("Desk", "Dresser", "SideTable")


def _names(*kinds: str, but: str = "", also: str = "") -> frozenset[str]:
    family = {name for name, thing in THINGS.items() if thing.kind in kinds}
    return frozenset((family | set(also.split())) - set(but.split()))


_KITCHENWARE = ("food", "tableware", "cookware", "cutlery", "shakers", "bottles")
_DESK_THINGS = ("writing", "devices", "valuables", "ornaments")

FURNITURE: Final[dict[str, Furniture]] = {
    item.name: item
    for item in (
        Furniture("ArmChair", _names("writing", "devices", "bulky", also="CreditCard KeyChain", but="AlarmClock")),
        Furniture("BathtubBasin", _names(also="Cloth DishSponge HandTowel SoapBar"), prefix="Bathtub"),
        Furniture("Bed", _names("sports", also="Book CellPhone Laptop Newspaper Pillow")),
        Furniture(
            "Cabinet",
            _names("tableware", "cookware", "shakers", "bottles", "washing", also="Book Candle CD Ladle Vase"),
            doors=0.8,
        ),
        Furniture("CoffeeMachine", frozenset({"Mug"})),
        Furniture("CoffeeTable", _names(*_DESK_THINGS, also="Bowl Box Plate TissueBox", but="AlarmClock")),
        Furniture("CounterTop", _names(*_KITCHENWARE, *_DESK_THINGS, "washing", but="Newspaper")),
        Furniture("Desk", _names(*_DESK_THINGS, also="Bowl Box BasketBall Mug TennisRacket TissueBox")),
        Furniture("DiningTable", _names(*_KITCHENWARE, *_DESK_THINGS, also="Box DishSponge TissueBox")),
        Furniture(
            "Drawer",
            _names("cutlery", "shakers", "washing", "valuables", "writing", also="Candle CellPhone RemoteControl"),
            doors=0.85,
        ),
        Furniture("Dresser", _names(*_DESK_THINGS, "sports", also="Bowl Box Mug SprayBottle", but="BaseballBat")),
        Furniture("Fridge", _names("food", "tableware", also="Glassbottle Pan Pot WineBottle"), doors=1.0),
        Furniture(
            "GarbageCan",
            _names("food", "bottles", also="CD Cloth DishSponge Newspaper Pen Pencil SoapBar TissueBox"),
        ),
        Furniture("HandTowelHolder", frozenset({"HandTowel"})),
        Furniture("Microwave", _names("food", "tableware", also="Glassbottle", but="Lettuce"), doors=1.0),
        Furniture("Safe", _names("valuables", "ornaments", also="CellPhone", but="Candle Watch"), doors=1.0),
        Furniture("Shelf", _names(*_DESK_THINGS, "tableware", "shakers", "bottles", "washing", but="Laptop")),
        Furniture("SideTable", _names(*_KITCHENWARE, *_DESK_THINGS, "washing", "sports", but="Ladle")),
        Furniture(
            "SinkBasin",
            _names("food", "tableware", "cookware", "cutlery", also="Cloth DishSponge SoapBar", but="Bread"),
            prefix="Sink",
        ),
        Furniture("Sofa", _names("writing", "devices", "bulky", also="CreditCard KeyChain", but="AlarmClock Pen")),
        Furniture("StoveBurner", frozenset({"Kettle", "Pan", "Pot"})),
        Furniture("Toilet", _names("washing", also="Candle SoapBottle SprayBottle")),
    )
}
"""Receptacles by class name."""

SINGLES: Final = frozenset(
    (
        *("CoffeeMachine", "Fridge", "GarbageCan", "Microwave"),
        *("Bed", "Desk", "Safe", "Sofa"),
        *("BathtubBasin", "Toilet"),
    )
)
"""Receptacle classes of which a room has at most one."""

FURNISHING: Final[dict[Room, dict[str, int]]] = {
    Room.KITCHEN: {
        "Cabinet": 12,
        "CoffeeMachine": 1,
        "CounterTop": 3,
        "DiningTable": 1,
        "Drawer": 7,
        "Fridge": 1,
        "GarbageCan": 1,
        "Microwave": 1,
        "Shelf": 1,
        "SideTable": 1,
        "SinkBasin": 1,
        "StoveBurner": 4,
    },
    Room.LIVING_ROOM: {
        "ArmChair": 2,
        "Cabinet": 1,
        "CoffeeTable": 2,
        "DiningTable": 1,
        "Drawer": 4,
        "Dresser": 1,
        "GarbageCan": 1,
        "Shelf": 3,
        "SideTable": 2,
        "Sofa": 1,
    },
    Room.BEDROOM: {
        "ArmChair": 1,
        "Bed": 1,
        "Cabinet": 1,
        "Desk": 1,
        "Drawer": 6,
        "Dresser": 1,
        "GarbageCan": 1,
        "Safe": 1,
        "Shelf": 3,
        "SideTable": 2,
    },
    Room.BATHROOM: {
        "BathtubBasin": 1,
        "Cabinet": 4,
        "CounterTop": 2,
        "Drawer": 4,
        "GarbageCan": 1,
        "HandTowelHolder": 2,
        "Shelf": 1,
        "SinkBasin": 2,
        "Toilet": 1,
    },
}
"""How often each class of receptacle stands in a room, as weights."""

KINDS_IN: Final[dict[Room, tuple[str, ...]]] = {
    Room.KITCHEN: ("food", "tableware", "cookware", "cutlery", "shakers", "bottles", "washing"),
    Room.LIVING_ROOM: ("writing", "devices", "valuables", "ornaments", "bulky"),
    Room.BEDROOM: ("writing", "devices", "valuables", "ornaments", "sports", "bulky"),
    Room.BATHROOM: ("washing", "bottles", "ornaments"),
}
"""Kinds of things found in a room."""

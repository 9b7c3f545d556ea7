"""A compiled game: everything that does not change while it is played.

Entities are numbered in ascending order of their lower-cased ids, which is the order in which the original
engine lists them; sets of objects are integers used as bit masks. One `Game` serves any number of running
copies, in either text format.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_gym.envs.alfworld.world.gamefile import TASK_PREFIX, GameRecord, TextFormat, read_game_file
from agent_gym.envs.alfworld.world.goals import Goal, TaskType, compile_goal
from agent_gym.envs.alfworld.world.names import Vocabulary, display_names
from agent_gym.envs.alfworld.world.pddl import Problem, parse_problem
from agent_gym.support.errors import DataError

_NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Game:
    """A game ready to play.

    Masks have bit `i` set for object (or receptacle) number `i`.

    Attributes:
        task_line: The intro's last line, "Your task is to: ...".
        text_format: The text format of the file the game came from.
        walkthrough: The file's recorded winning run, None when it has none.
        goal: What wins it.
        ids: Every id that occurs in a fact, ascending.
        objects: Object ids, ascending.
        receptacles: Receptacle ids, ascending.
        locations: Location ids, ascending.
        place_of: Location of each receptacle; -1 when it has none and cannot be reached.
        here: Receptacles at each location, ascending.
        start: The agent's first location.
        held: The object held at the start, or -1.
        contents: Objects in each receptacle at the start, ascending.
        inner: Static contents of objects that hold things, by outer object.
        accepts: Mask of the objects that each receptacle may hold.
        openable: Mask of receptacles with a door.
        opened: Mask of receptacles open at the start.
        pickupable: Mask of objects; likewise the further `*able` masks.
        clean: Mask of objects clean at the start; likewise hot, cool, sliced and toggled.
        knives: Mask of objects that slice.
        holders: Mask of objects that hold things.
        objects_at: (object, location) pairs known at the start.
        heaters: Mask of receptacles that heat; likewise coolers and washers.
        old_washers: Washers in text format 0.3, whose domain also names sinks.
        goal_objects: Mask of objects of the goal's type.
        goal_receptacles: Receptacles of the goal's type, ascending; empty for `TaskType.LIGHT`.
        goal_lamps: Mask of toggleable objects of the lamp's type; 0 but for `TaskType.LIGHT`.
        goal_eligible: Mask of goal objects that may satisfy the goal once processed.
    """

    task_line: str
    text_format: TextFormat
    walkthrough: tuple[str, ...] | None
    goal: Goal
    ids: tuple[str, ...]
    objects: tuple[str, ...]
    receptacles: tuple[str, ...]
    locations: tuple[str, ...]
    place_of: tuple[int, ...]
    here: tuple[tuple[int, ...], ...]
    start: int
    held: int
    contents: tuple[tuple[int, ...], ...]
    inner: dict[int, tuple[int, ...]]
    accepts: tuple[int, ...]
    openable: int
    opened: int
    pickupable: int
    cleanable: int
    heatable: int
    coolable: int
    toggleable: int
    sliceable: int
    clean: int
    hot: int
    cool: int
    sliced: int
    toggled: int
    knives: int
    holders: int
    objects_at: frozenset[tuple[int, int]]
    heaters: int
    coolers: int
    washers: int
    old_washers: int
    goal_objects: int
    goal_receptacles: tuple[int, ...]
    goal_lamps: int
    goal_eligible: int

    @property
    def task_type(self) -> TaskType:
        """The task's type."""
        return self.goal.task_type

    @property
    def task(self) -> str:
        """The task sentence without "Your task is to: " and without the final full stop."""
        return self.task_line.removeprefix(TASK_PREFIX).removesuffix(".")

    def vocabulary(self, shuffle: random.Random | None = None) -> Vocabulary:
        """Return the display names of everything in the game.

        Args:
            shuffle: Numbers the names of a class in random order (the original's domain_randomization); None
                gives the usual numbers, which are made once and shared.

        Returns:
            The names.
        """
        return self._plain_vocabulary if shuffle is None else self._named(shuffle)

    @cached_property
    def _plain_vocabulary(self) -> Vocabulary:
        return self._named(None)

    def _named(self, shuffle: random.Random | None) -> Vocabulary:
        names = display_names(self.ids, shuffle)
        return Vocabulary.build(
            tuple(names[i] for i in self.objects),
            tuple(names[i] for i in self.receptacles),
            tuple(names[i] for i in self.locations),
            self.here,
            self.place_of,
        )

    def __copy__(self) -> Game:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        return self


def load_game(path: Path) -> Game:
    """Read and compile a game file.

    Args:
        path: A `game.tw-pddl` file.

    Returns:
        The game.

    Raises:
        DataError: The file cannot be read or played; the message names it.
    """
    record = read_game_file(path)
    try:
        return compile_game(record)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def compile_game(record: GameRecord) -> Game:
    """Compile a record.

    Args:
        record: A checked record.

    Returns:
        The game.

    Raises:
        DataError: The problem cannot be parsed, its goal is of no known shape, or its facts contradict each
            other (no agent, two places for one receptacle, two things in hand).
    """
    return _Compiler(parse_problem(record.problem), record).compile()


class _Compiler:
    """Turns facts about ids into numbered tables."""

    def __init__(self, problem: Problem, record: GameRecord) -> None:
        self.record = record
        self.goal = compile_goal(problem.goal)
        self.facts: dict[str, list[tuple[str, ...]]] = {}
        ids: set[str] = set()
        for fact in problem.facts:
            self.facts.setdefault(fact[0], []).append(fact[1:])
            ids.update(fact[1:])
        self.ids = tuple(sorted(ids))
        self.by_kind: dict[str, tuple[str, ...]] = {
            kind: tuple(i for i in self.ids if problem.types[i] == kind)
            for kind in ("object", "receptacle", "location")
        }
        self.number = {i: n for group in self.by_kind.values() for n, i in enumerate(group)}

    def mask(self, predicate: str) -> int:
        """Bit mask of the entities a one-place predicate holds for."""
        return _mask(self.number[args[0]] for args in self.facts.get(predicate, ()))

    def typed(self, predicate: str, *kinds: str) -> int:
        """Bit mask of the entities of one of the named types."""
        return _mask(self.number[name] for name, kind in self.facts.get(predicate, ()) if kind in kinds)

    def compile(self) -> Game:
        number, place_of = self.number, self._places()
        return Game(
            task_line=self.record.task,
            text_format=self.record.text_format,
            walkthrough=self.record.walkthrough,
            goal=self.goal,
            ids=self.ids,
            objects=self.by_kind["object"],
            receptacles=self.by_kind["receptacle"],
            locations=self.by_kind["location"],
            place_of=place_of,
            here=self._here(place_of),
            start=self._start(),
            held=self._held(),
            contents=self._contents(),
            inner=self._inner(),
            accepts=self._accepts(),
            openable=self.mask("openable"),
            opened=self.mask("opened"),
            pickupable=self.mask("pickupable"),
            cleanable=self.mask("cleanable"),
            heatable=self.mask("heatable"),
            coolable=self.mask("coolable"),
            toggleable=self.mask("toggleable"),
            sliceable=self.mask("sliceable"),
            clean=self.mask("isclean"),
            hot=self.mask("ishot"),
            cool=self.mask("iscool"),
            sliced=self.mask("issliced"),
            toggled=self.mask("istoggled"),
            knives=self.typed("objecttype", "knifetype", "butterknifetype"),
            holders=self.mask("isreceptacleobject"),
            objects_at=frozenset((number[o], number[p]) for o, p in self.facts.get("objectatlocation", ())),
            heaters=self.typed("receptacletype", "microwavetype"),
            coolers=self.typed("receptacletype", "fridgetype"),
            washers=self.typed("receptacletype", "sinkbasintype"),
            old_washers=self.typed("receptacletype", "sinkbasintype", "sinktype"),
            **self._goal_masks(),
        )

    def _goal_masks(self) -> dict[str, Any]:
        """Return the fields of a game that follow from its goal."""
        goal, receptacles = self.goal, self.by_kind["receptacle"]
        eligible = goal_objects = self.typed("objecttype", goal.object_type)
        for task_type, able in _ABLE.items():
            if goal.task_type is task_type:
                eligible &= self.mask(able)
        light = goal.task_type is TaskType.LIGHT
        targets = 0 if light else self.typed("receptacletype", goal.target_type)
        return {
            "goal_objects": goal_objects,
            "goal_receptacles": tuple(r for r in range(len(receptacles)) if targets >> r & 1),
            "goal_lamps": self.typed("objecttype", goal.target_type) & self.mask("toggleable") if light else 0,
            "goal_eligible": eligible,
        }

    def _here(self, place_of: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        here: list[list[int]] = [[] for _ in self.by_kind["location"]]
        for receptacle, place in enumerate(place_of):
            if place != _NOWHERE:
                here[place].append(receptacle)
        return tuple(map(tuple, here))

    def _held(self) -> int:
        held = {args[1] for args in self.facts.get("holds", ())}
        if len(held) > 1:
            raise DataError(f"the agent starts with {len(held)} objects in hand; at most one is possible")
        return self.number[held.pop()] if held else -1

    def _contents(self) -> tuple[tuple[int, ...], ...]:
        contents: list[set[int]] = [set() for _ in self.by_kind["receptacle"]]
        for thing, receptacle in self.facts.get("inreceptacle", ()):
            contents[self.number[receptacle]].add(self.number[thing])
        return tuple(tuple(sorted(inside)) for inside in contents)

    def _inner(self) -> dict[int, tuple[int, ...]]:
        inner: dict[int, set[int]] = {}
        for thing, outer in self.facts.get("inreceptacleobject", ()):
            inner.setdefault(self.number[outer], set()).add(self.number[thing])
        return {outer: tuple(sorted(inside)) for outer, inside in inner.items()}

    def _start(self) -> int:
        starts = [args[1] for args in self.facts.get("atlocation", ())]
        if len(starts) != 1:
            raise DataError(f"the problem must place one agent at one location; it has {len(starts)} such facts")
        return self.number[starts[0]]

    def _places(self) -> tuple[int, ...]:
        places = [_NOWHERE] * len(self.by_kind["receptacle"])
        for receptacle, location in self.facts.get("receptacleatlocation", ()):
            where, place = self.number[receptacle], self.number[location]
            if places[where] not in (_NOWHERE, place):
                raise DataError(f"receptacle {receptacle!r} is at two locations; one was expected")
            places[where] = place
        return tuple(places)

    def _accepts(self) -> tuple[int, ...]:
        of_type: dict[str, int] = {}
        for name, kind in self.facts.get("objecttype", ()):
            of_type[kind] = of_type.get(kind, 0) | 1 << self.number[name]
        holds: dict[str, int] = {}
        for rtype, otype in self.facts.get("cancontain", ()):
            holds[rtype] = holds.get(rtype, 0) | of_type.get(otype, 0)
        accepts = [0] * len(self.by_kind["receptacle"])
        for name, kind in self.facts.get("receptacletype", ()):
            accepts[self.number[name]] |= holds.get(kind, 0)
        return tuple(accepts)


_ABLE = {TaskType.CLEAN: "cleanable", TaskType.HEAT: "heatable", TaskType.COOL: "coolable"}


def _mask(numbers: Iterable[int]) -> int:
    total = 0
    for number in numbers:
        total |= 1 << number
    return total

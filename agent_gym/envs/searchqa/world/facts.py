"""The generated world: entities, their facts and a consistent chronology; no text but names.

Cities are founded by people of an early age, everybody else is born after that; founders, authors, leaders and
describers are adults when they act, teachers are older than pupils, employers are founded before people work
there, marriages are mutual. All of it follows from the seed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from agent_gym.envs.searchqa.world.names import GeneratedSplit, NameMaker, given_names
from agent_gym.envs.searchqa.world.relations import BY_NAME, Kind, Relation

_T = TypeVar("_T")

SHARES: dict[Kind, int] = {
    Kind.PERSON: 40,
    Kind.WORK: 15,
    Kind.ORGANISATION: 12,
    Kind.CITY: 10,
    Kind.EVENT: 10,
    Kind.SPECIES: 8,
    Kind.REGION: 5,
}
"""Per cent of the entities that are of each kind."""
LEAST_ENTITIES = 40
"""A smaller world has too few questions."""
_GIVEN_NAMES = 300
_EARLY_SHARE = 5  # one person in five belongs to the early age
_EARLY_BIRTHS = (500, 1_000)
_BIRTHS = (1_100, 1_951)
_ADULT, _OLD = 25, 58
_RECENT = 1_850
_LEAST_EMPLOYED = 40  # years after birth by which an employer exists
_TEACHER_AGE = (15, 60)
_SPOUSE_GAP = 25
_MARRIED = 0.85

PROFESSIONS = (
    "baker",
    "carpenter",
    "cartographer",
    "clerk",
    "gardener",
    "mason",
    "miller",
    "painter",
    "printer",
    "sailor",
    "tailor",
    "weaver",
)
_FORMS: dict[Kind, tuple[str, ...]] = {
    Kind.WORK: ("Tale of {}", "Book of {}", "Song of {}", "Map of {}"),
    Kind.ORGANISATION: ("{} Guild", "{} Institute", "{} Company", "{} Society"),
    Kind.EVENT: ("{} Festival", "{} Congress", "{} Games", "{} Expedition"),
    Kind.SPECIES: ("{} finch", "{} fern", "{} moth", "{} heron"),
}
_GENERAL = frozenset(word for forms in _FORMS.values() for form in forms for word in form.split())


def telling_word(name: str) -> str:
    """Return the word of a name that no other name shares: "Vemamin" of "Vemamin Company"."""
    return [word for word in name.split() if word not in _GENERAL][-1]


class Entity(NamedTuple):
    """One entity.

    Attributes:
        number: Position in the world.
        kind: Kind.
        name: Full name.
        stem_name: The part of the name that no other entity has.
        alias: A second name, "" for none.
    """

    number: int
    kind: Kind
    name: str
    stem_name: str
    alias: str


class Fact(NamedTuple):
    """One fact about a subject.

    Attributes:
        relation: Which.
        text: The object as text.
        entity: Number of the object, -1 when it is no entity.
    """

    relation: Relation
    text: str
    entity: int


class Dice:
    """Cheap draws from a generator: numbers come in blocks.

    Args:
        rng: Source.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._block: list[float] = []

    def random(self) -> float:
        """Return a number in [0, 1)."""
        if not self._block:
            self._block = self._rng.random(4_096).tolist()
        return self._block.pop()

    def below(self, bound: int) -> int:
        """Return a whole number in [0, bound)."""
        return int(self.random() * bound)

    def between(self, least: int, bound: int) -> int:
        """Return a whole number in [least, bound)."""
        return least + self.below(bound - least)

    def choice(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        """Return the items in a random order."""
        order = list(items)
        for place in range(len(order) - 1, 0, -1):
            other = self.below(place + 1)
            order[place], order[other] = order[other], order[place]
        return order


@dataclass(frozen=True, eq=False)
class World:
    """Entities and facts.

    Attributes:
        entities: All entities, grouped by kind.
        facts: Facts of each entity by relation name.
        subjects: For each entity, the entities that have a fact about it.
    """

    entities: tuple[Entity, ...]
    facts: tuple[dict[str, Fact], ...]
    subjects: tuple[tuple[int, ...], ...]

    def of_kind(self, kind: Kind) -> list[int]:
        """Return the numbers of the entities of a kind."""
        return [entity.number for entity in self.entities if entity.kind is kind]


def make_world(
    rng: np.random.Generator,
    split: GeneratedSplit,
    size: int,
    *,
    aliases: float = 0.0,
    near_names: float = 0.0,
    short_names: bool = False,
) -> World:
    """Make a world.

    Args:
        rng: Decides everything.
        split: Split whose names are used.
        size: Entities.
        aliases: Share of the entities with a second name.
        near_names: Share of the entities whose name differs from another's in its ending only.
        short_names: Bare two-syllable names in lower case for every kind.
    """
    return _Builder(rng, split, size, aliases=aliases, near_names=near_names, short_names=short_names).build()


class _Builder:
    """The steps of `make_world`."""

    def __init__(
        self,
        rng: np.random.Generator,
        split: GeneratedSplit,
        size: int,
        *,
        aliases: float,
        near_names: float,
        short_names: bool,
    ) -> None:
        self.rng, self.dice = rng, Dice(rng)
        counts = {kind: max(2, size * share // 100) for kind, share in SHARES.items()}
        counts[Kind.PERSON] += size - sum(counts.values())
        self.size, self.short = size, short_names
        # Each entity takes a name, perhaps an alias; each city a river.
        self.names = NameMaker(rng, split, 2 * size + counts[Kind.CITY], short=short_names)
        self.given = given_names(rng, _GIVEN_NAMES)
        self.aliases, self.near_names = aliases, near_names
        self.entities: list[Entity] = []
        self.groups: dict[Kind, list[int]] = {}
        for kind, count in counts.items():
            self.groups[kind] = [self._entity(kind) for _ in range(count)]
        self.facts: list[dict[str, Fact]] = [{} for _ in self.entities]

    def _entity(self, kind: Kind) -> int:
        number, dice = len(self.entities), self.dice
        if self.entities and dice.random() < self.near_names:
            stem = self.names.like(dice.choice(self.entities).stem_name, self.rng)
        else:
            stem = self.names.name()
        form = self._form(kind)
        alias = form.format(self.names.name()) if dice.random() < self.aliases else ""
        self.entities.append(Entity(number, kind, form.format(stem), stem, alias))
        return number

    def _form(self, kind: Kind) -> str:
        """Return what stands around a name; a second name keeps it, as pen names keep the given name."""
        if self.short:
            return "{}"
        if kind is Kind.PERSON:
            return f"{self.dice.choice(self.given)} {{}}"
        return self.dice.choice(_FORMS.get(kind, ("{}",)))

    def build(self) -> World:
        """Fill in all facts."""
        births = self._people()
        self._cities()
        modern = [number for number in self.groups[Kind.PERSON] if births[number] >= _BIRTHS[0]]
        founded = self._organisations(births, modern)
        self._careers(births, modern, founded)
        self._works(births, modern, founded)
        self._events_and_species(births, modern)
        self._regions(births, modern)
        subjects: list[dict[int, None]] = [{} for _ in self.entities]
        for number, facts in enumerate(self.facts):
            for fact in facts.values():
                if fact.entity >= 0:
                    subjects[fact.entity][number] = None
        return World(tuple(self.entities), tuple(self.facts), tuple(map(tuple, subjects)))

    def _link(self, subject: int, relation: str, target: int) -> None:
        self._state(subject, relation, self.entities[target].name, target)

    def _state(self, subject: int, relation: str, text: str | int, entity: int = -1) -> None:
        known = BY_NAME[self.entities[subject].kind, relation]
        self.facts[subject][relation] = Fact(known, str(text), entity)

    def _people(self) -> dict[int, int]:
        """Births, professions and marriages; returns the year of birth of every person."""
        dice, people = self.dice, self.groups[Kind.PERSON]
        births: dict[int, int] = {}
        for place, number in enumerate(people):
            least, bound = _EARLY_BIRTHS if place % _EARLY_SHARE == 0 else _BIRTHS
            births[number] = dice.between(least, bound)
            self._state(number, "birth_year", births[number])
            self._state(number, "profession", dice.choice(PROFESSIONS))
        jittered = sorted(people, key=lambda number: (births[number] + 16 * dice.random(), number))
        for one, other in zip(jittered[::2], jittered[1::2], strict=False):
            if abs(births[one] - births[other]) <= _SPOUSE_GAP and dice.random() < _MARRIED:
                self._link(one, "spouse", other)
                self._link(other, "spouse", one)
        self.births = births
        return births

    def _acts(self, person: int) -> int:
        """Return a year in which a person is an adult."""
        return self.births[person] + self.dice.between(_ADULT, _OLD)

    def _cities(self) -> None:
        dice, regions = self.dice, self.groups[Kind.REGION]
        early = [number for number in self.groups[Kind.PERSON] if self.births[number] < _EARLY_BIRTHS[1]]
        of_region: dict[int, list[int]] = {region: [] for region in regions}
        for place, city in enumerate(self.groups[Kind.CITY]):
            region = regions[place] if place < len(regions) else dice.choice(regions)
            of_region[region].append(city)
            founder = dice.choice(early)
            self._link(city, "region", region)
            self._link(city, "founder", founder)
            self._state(city, "founded", self._acts(founder))
            self._state(city, "river", self.names.name())
            self._state(city, "population", dice.between(1_000, 1_000_000))
        for region, cities in of_region.items():
            if cities:
                self._link(region, "capital", dice.choice(cities))

    def _organisations(self, births: dict[int, int], modern: list[int]) -> list[tuple[int, int]]:
        """Returns (year, organisation) in order of foundation."""
        founded = []
        for number in self.groups[Kind.ORGANISATION]:
            founder = self.dice.choice(modern)
            year = self._acts(founder)
            self._link(number, "hq", self.dice.choice(self.groups[Kind.CITY]))
            self._link(number, "founder", founder)
            self._state(number, "founded", year)
            founded.append((year, number))
        return sorted(founded)

    def _older(self, founded: list[tuple[int, int]], year: int) -> int | None:
        """Return an organisation that exists in a year."""
        count = bisect_right(founded, (year, len(self.entities)))
        return founded[self.dice.below(count)][1] if count else None

    def _careers(self, births: dict[int, int], modern: list[int], founded: list[tuple[int, int]]) -> None:
        dice = self.dice
        in_order = sorted((births[number], number) for number in modern)
        for number in modern:
            birth = births[number]
            self._link(number, "birthplace", dice.choice(self.groups[Kind.CITY]))
            employer = self._older(founded, birth + _LEAST_EMPLOYED)
            if employer is not None:
                self._link(number, "employer", employer)
            first = bisect_left(in_order, (birth - _TEACHER_AGE[1], -1))
            last = bisect_left(in_order, (birth - _TEACHER_AGE[0], -1))
            if last > first:
                self._link(number, "teacher", in_order[dice.between(first, last)][1])

    def _works(self, births: dict[int, int], modern: list[int], founded: list[tuple[int, int]]) -> None:
        for number in self.groups[Kind.WORK]:
            author = self.dice.choice(modern)
            year = self._acts(author)
            publisher = self._older(founded, year)
            self._link(number, "author", author)
            if publisher is not None:
                self._link(number, "publisher", publisher)
            self._link(number, "setting", self.dice.choice(self.groups[Kind.CITY]))
            self._state(number, "year", year)

    def _events_and_species(self, births: dict[int, int], modern: list[int]) -> None:
        for number in self.groups[Kind.EVENT]:
            leader = self.dice.choice(modern)
            self._link(number, "place", self.dice.choice(self.groups[Kind.CITY]))
            self._link(number, "leader", leader)
            self._state(number, "year", self._acts(leader))
        for number in self.groups[Kind.SPECIES]:
            describer = self.dice.choice(modern)
            self._link(number, "habitat", self.dice.choice(self.groups[Kind.REGION]))
            self._link(number, "describer", describer)
            self._state(number, "year", self._acts(describer))

    def _regions(self, births: dict[int, int], modern: list[int]) -> None:
        recent = [number for number in modern if births[number] >= _RECENT] or modern
        for number in self.groups[Kind.REGION]:
            self._link(number, "governor", self.dice.choice(recent))
            self._link(number, "emblem", self.dice.choice(self.groups[Kind.SPECIES]))
            self._state(number, "area", self.dice.between(1_000, 100_000))

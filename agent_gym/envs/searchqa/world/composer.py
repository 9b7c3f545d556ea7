"""Composes questions about a generated world that have one answer by construction.

- bridge: a chain of relations from a named entity.
- intersection: an entity told by two of its facts, then a chain from it.
- comparison: the earlier (smaller) or later (larger) of two named entities, then a chain from it; the answer is
  never one of the two, which could be guessed.
- temporal: the event held in a city in the year of something else, then a chain from it.

The answer stands in no passage about a named entity, and in none that mentions one, unless the question has one
hop: a single search cannot find it. Hops are the passages that are needed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent_gym.envs.searchqa.world.facts import Dice, Fact, World
from agent_gym.envs.searchqa.world.relations import COMPARED, CROSSED, Kind, Relation
from agent_gym.envs.searchqa.world.texts import Style

_TRIES = 400


class QuestionType(StrEnum):
    """Shapes of questions."""

    BRIDGE = "bridge"
    INTERSECTION = "intersection"
    COMPARISON = "comparison"
    TEMPORAL = "temporal"


HOPS: dict[QuestionType, tuple[int, int]] = {
    QuestionType.BRIDGE: (1, 4),
    QuestionType.INTERSECTION: (2, 4),
    QuestionType.COMPARISON: (3, 4),
    QuestionType.TEMPORAL: (3, 4),
}
"""Fewest and most hops of each type."""
MOST_HOPS = max(most for _, most in HOPS.values())

Step = dict[str, Any]
"""One step of a plan: `{"read": relation, "kind": kind, "of": ref}`, `{"compare": [step, step], "least": bool}` or
`{"find": kind, "where": [[relation, ref], ...]}`. A ref is a name or the number of an earlier step."""


@dataclass
class Composition:
    """A question in the making.

    Attributes:
        type: Shape.
        question: Text.
        golds: Accepted answers.
        chain: (subject, relation, object) as text, in order.
        plan: How the answer is found from text, see `Step`.
        needed: (entity, relation) of every fact needed.
        named: Entities that the question names.
    """

    type: QuestionType
    question: str = ""
    golds: tuple[str, ...] = ()
    chain: list[tuple[str, str, str]] = field(default_factory=list)
    plan: list[Step] = field(default_factory=list)
    needed: list[tuple[int, str]] = field(default_factory=list)
    named: list[int] = field(default_factory=list)

    @property
    def hops(self) -> int:
        """Entities whose passages are needed."""
        return len({entity for entity, _ in self.needed})


class Composer:
    """Makes questions about one world.

    Args:
        world: The world.
        style: Wording.
        crossing: Whether questions may tell an entity by several facts, which one passage must then hold.
    """

    def __init__(self, world: World, style: Style, *, crossing: bool = True) -> None:
        self.world, self.style, self._crossing = world, style, crossing
        self._crossed: dict[Kind, list[int]] = {}
        for kind, (one, other, _) in CROSSED.items():
            self._crossed[kind] = self._told_by(kind, one, other)
        events = self._told_by(Kind.EVENT, "place", "year")
        dated: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for kind, relation in ((Kind.PERSON, "birth_year"), (Kind.ORGANISATION, "founded"), (Kind.WORK, "year")):
            for number in world.of_kind(kind):
                dated[world.facts[number][relation].text].append((number, relation))
        self._dated = dated
        self._events = [event for event in events if world.facts[event]["year"].text in dated]

    def compose(self, dice: Dice, kind: QuestionType, hops: int) -> Composition | None:
        """Return a question of a shape with a number of hops, or None where the world has none to be found."""
        makers = {
            QuestionType.BRIDGE: self._bridge,
            QuestionType.INTERSECTION: self._intersection,
            QuestionType.COMPARISON: self._comparison,
            QuestionType.TEMPORAL: self._temporal,
        }
        for _ in range(_TRIES):
            made = makers[kind](dice, hops)
            if made is not None and made.hops == hops and self._is_fair(made, hops):
                return made
        return None

    # Shapes: each returns a composition or None when this draw leads nowhere ----------------------------------

    def _bridge(self, dice: Dice, hops: int) -> Composition | None:
        start = dice.below(len(self.world.entities))
        made = Composition(QuestionType.BRIDGE, named=[start])
        name = self.world.entities[start].name
        return self._walk(dice, made, start, phrase=name, ref=name, hops=hops)

    def _intersection(self, dice: Dice, hops: int) -> Composition | None:
        kind = dice.choice(tuple(CROSSED))
        if not self._crossed[kind]:
            return None
        one, other, wordings = CROSSED[kind]
        found = dice.choice(self._crossed[kind])
        facts = [self.world.facts[found][one], self.world.facts[found][other]]
        names = [self.world.entities[fact.entity].name for fact in facts]
        made = Composition(QuestionType.INTERSECTION, named=[fact.entity for fact in facts])
        where = [[one, names[0]], [other, names[1]]]
        self._found(made, found, kind, where)
        if self.style is Style.TERSE:
            phrase = f"{kind.value} with {one} {names[0]} and {other} {names[1]}"
        else:
            phrase = dice.choice(wordings).format(a=names[0], b=names[1])
        return self._walk(dice, made, found, phrase=phrase, ref=len(made.plan) - 1, hops=hops, avoid=(one, other))

    def _comparison(self, dice: Dice, hops: int) -> Composition | None:
        kind = dice.choice(tuple(COMPARED))
        relation, less, more = COMPARED[kind]
        group = self.world.of_kind(kind)
        pair = [dice.choice(group), dice.choice(group)]
        facts = [self.world.facts[number][relation] for number in pair]
        values = [int(fact.text) for fact in facts]
        if values[0] == values[1]:
            return None
        least = dice.random() < 0.5
        winner, loser = pair if (values[0] < values[1]) == least else pair[::-1]
        names = [self.world.entities[number].name for number in pair]
        made = Composition(QuestionType.COMPARISON, named=list(pair))
        for number, name, fact in zip(pair, names, facts, strict=True):
            self._read(made, number, name, fact)
        made.plan.append({"compare": [0, 1], "least": least})
        if self.style is Style.TERSE:
            phrase = f"{'least' if least else 'most'} {relation} among {names[0]} and {names[1]}"
        else:
            phrase = f"whichever of {names[0]} and {names[1]} {less if least else more}"
        done = self._walk(dice, made, winner, phrase=phrase, ref=2, hops=hops, avoid=(relation,))
        # Both ways to one answer would make the comparison idle.
        return None if done is None or self._arrives(loser, done) else done

    def _temporal(self, dice: Dice, hops: int) -> Composition | None:
        if not self._events:
            return None
        event = dice.choice(self._events)
        facts = self.world.facts[event]
        dated, relation = dice.choice(self._dated[facts["year"].text])
        place = facts["place"].entity
        if place == dated:
            return None
        entity, city = self.world.entities[dated], self.world.entities[place].name
        made = Composition(QuestionType.TEMPORAL, named=[dated, place])
        self._read(made, dated, entity.name, self.world.facts[dated][relation])
        self._found(made, event, Kind.EVENT, [["place", city], ["year", 0]])
        if self.style is Style.TERSE:
            phrase = f"event with place {city} and year {relation} of {entity.name}"
        else:
            happened = {"birth_year": "was born", "founded": "was founded", "year": "appeared"}[relation]
            phrase = f"the event held in {city} in the year in which {entity.name} {happened}"
        return self._walk(
            dice, made, event, phrase=phrase, ref=len(made.plan) - 1, hops=hops, avoid=("place", "year")
        )

    # Parts -------------------------------------------------------------------------------------------------------

    def _told_by(self, kind: Kind, one: str, other: str) -> list[int]:
        """Return the entities of a kind that two facts tell from everything else.

        No other passage mentions both objects, whatever it says of them: a search for the two finds the one.
        """
        told: list[int] = []
        for number in self.world.of_kind(kind) if self._crossing else ():
            facts = self.world.facts[number]
            if one not in facts or other not in facts:
                continue
            near, far = facts[one], facts[other]
            near, far = (near, far) if near.entity >= 0 else (far, near)
            rivals = (near.entity, *self.world.subjects[near.entity])
            if (
                near.entity != far.entity
                and not any(rival != number and self._mentions(rival, far) for rival in rivals)
                and (far.entity < 0 or not self._mentions(far.entity, near))
            ):
                told.append(number)
        return told

    def _mentions(self, subject: int, wanted: Fact) -> bool:
        """Return whether a passage about `subject` holds an object."""
        return any(fact.text == wanted.text for fact in self.world.facts[subject].values())

    def _read(self, made: Composition, number: int, ref: str | int, fact: Fact) -> None:
        entity, relation = self.world.entities[number], fact.relation
        made.plan.append({"read": relation.name, "kind": entity.kind.value, "of": ref})
        made.chain.append((entity.name, relation.name, fact.text))
        made.needed.append((number, relation.name))

    def _found(self, made: Composition, number: int, kind: Kind, where: list[list[Any]]) -> None:
        for relation, _ in where:
            made.chain.append((self.world.entities[number].name, relation, self.world.facts[number][relation].text))
            made.needed.append((number, relation))
        made.plan.append({"find": kind.value, "where": where})

    def _walk(
        self,
        dice: Dice,
        made: Composition,
        start: int,
        phrase: str,
        *,
        ref: str | int,
        hops: int,
        avoid: tuple[str, ...] = (),
    ) -> Composition | None:
        """Extend a composition by a chain of relations until `hops` entities are needed, and word it."""
        world, here = self.world, start
        seen = {entity for entity, _ in made.needed} | {start, *made.named}
        while True:
            last = len({entity for entity, _ in made.needed} | {here}) == hops
            options = [
                fact
                for name, fact in world.facts[here].items()
                if fact.relation.can_be_asked
                and fact.entity not in seen
                and (here != start or name not in avoid)
                and (last or fact.relation.leads_on)
            ]
            if not options:
                return None
            fact = dice.choice(options)
            self._read(made, here, ref, fact)
            if last:
                break
            ref = len(made.plan) - 1
            phrase = self._phrase(dice, fact.relation, phrase)
            here = fact.entity
            seen.add(here)
        made.golds = (fact.text,)
        if fact.entity >= 0 and world.entities[fact.entity].alias:
            made.golds = (fact.text, world.entities[fact.entity].alias)
        made.question = self._ask(dice, fact.relation, phrase)
        return made

    def _phrase(self, dice: Dice, relation: Relation, inner: str) -> str:
        if self.style is Style.TERSE:
            return f"{relation.name} of {inner}"
        return dice.choice(relation.phrases).format(inner)

    def _ask(self, dice: Dice, relation: Relation, inner: str) -> str:
        if self.style is Style.TERSE:
            return f"{relation.name} of {inner}"
        return dice.choice(relation.questions).format(inner)

    def _arrives(self, start: int, made: Composition) -> bool:
        """Return whether the chain after a comparison leads to the same answer from another start."""
        here = start
        for step in made.plan[3:]:
            fact = self.world.facts[here].get(step["read"])
            if fact is None:
                return False
            if fact.text in made.golds:
                return True
            if fact.entity < 0:
                return False
            here = fact.entity
        return False

    def _is_fair(self, made: Composition, hops: int) -> bool:
        """Return whether the answer is neither in the question nor in a passage that a single search would find."""
        asked = made.question.lower()
        if any(gold.lower() in asked for gold in made.golds):
            return False
        if hops == 1:
            return True
        near = set(made.named)
        for named in made.named:
            near.update(self.world.subjects[named])
        golds = set(made.golds)
        return not any(
            fact.text in golds or self.world.entities[number].name in golds
            for number in near
            for fact in self.world.facts[number].values()
        )

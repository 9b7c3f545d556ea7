"""From facts to passages: one or several an entity, each fact one sentence, filler up to a usual length."""

from __future__ import annotations

from enum import StrEnum

from agent_gym.envs.searchqa.world.facts import Dice, Entity, Fact, World
from agent_gym.envs.searchqa.world.relations import CROSSED, Kind
from agent_gym.retrieval.base import Passage

ALIAS = "{s} is also known as {o}."
_LEAST_WORDS = 45
# What questions cross is stated with the usual names, or nobody could search for both at once.
TOGETHER: dict[Kind, tuple[str, ...]] = {
    kind: (one, other, *(("year",) if kind is Kind.EVENT else ())) for kind, (one, other, _) in CROSSED.items()
}
"""What questions cross stands in one passage as long as it has room."""
MOST_TOGETHER = max(map(len, TOGETHER.values()))
_CROSSED = frozenset((kind, name) for kind, (one, other, _) in CROSSED.items() for name in (one, other))
_FILLERS = (
    "Visitors remember the long evenings and the quiet mornings.",
    "Several letters on the subject have been lost.",
    "Later accounts differ in small details.",
    "A short note in an old almanac tells much the same.",
    "The weather of those days is said to have been mild.",
    "Many drawings survive in private hands.",
    "Little else was written down at the time.",
    "The matter came up again in later talks.",
    "Old maps mark the spot with a plain circle.",
    "Children still learn a rhyme about it.",
    "A small display explains the background to guests.",
    "Opinions about it have changed more than once.",
    "Some of the papers were copied by hand.",
    "The oldest description fills a single page.",
)


class Style(StrEnum):
    """How passages and questions are worded."""

    PROSE = "prose"
    """Sentences of several wordings among filler."""
    TERSE = "terse"
    """Relation and object, nothing else: for very small models."""


def make_passages(
    world: World, dice: Dice, style: Style, facts_per_passage: int, prefix: str
) -> tuple[list[Passage], list[dict[str, str]]]:
    """Write the passages of a world.

    Args:
        world: Entities and facts.
        dice: Decides wordings and order.
        style: Prose or terse.
        facts_per_passage: Facts of one passage; an entity with more has several passages. 0 is no limit.
        prefix: Start of every passage id.

    Returns:
        The passages, and for each entity the id of the passage that states each of its relations.
    """
    passages: list[Passage] = []
    places: list[dict[str, str]] = []
    for entity, facts in zip(world.entities, world.facts, strict=True):
        order = dice.shuffled(list(facts.values()))
        together = TOGETHER.get(entity.kind, ())
        if facts_per_passage:
            order.sort(key=lambda fact: fact.relation.name not in together)
        size = facts_per_passage or len(order)
        where: dict[str, str] = {}
        for start in range(0, len(order), size):
            part = order[start : start + size]
            passage_id = f"{prefix}{len(passages)}"
            where |= {fact.relation.name: passage_id for fact in part}
            text = _terse(entity, part) if style is Style.TERSE else _prose(world, dice, entity, part)
            passages.append(Passage(passage_id, entity.name, text))
        places.append(where)
    return passages, places


def _terse(entity: Entity, facts: list[Fact]) -> str:
    known = f" alias {entity.alias}." if entity.alias else ""
    return f"{entity.name}:{known} " + " ".join(f"{fact.relation.name} {fact.text}." for fact in facts)


def _prose(world: World, dice: Dice, entity: Entity, facts: list[Fact]) -> str:
    sentences = []
    for fact in facts:
        text = fact.text
        if fact.entity >= 0:
            other = world.entities[fact.entity]
            plain = (entity.kind, fact.relation.name) in _CROSSED
            text = other.alias if other.alias and not plain and dice.random() < 0.5 else other.name
        sentences.append(dice.choice(fact.relation.sentences).format(s=entity.name, o=text))
    if entity.alias:
        sentences.insert(0, ALIAS.format(s=entity.name, o=entity.alias))
    words = sum(sentence.count(" ") + 1 for sentence in sentences)
    fillers = dice.shuffled(_FILLERS)
    while words < _LEAST_WORDS and fillers:
        filler = fillers.pop()
        words += filler.count(" ") + 1
        sentences.insert(1 + dice.below(len(sentences)), filler)
    return " ".join(sentences)

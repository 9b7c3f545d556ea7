"""Kinds of entities of the generated world, and the relations between them.

Every relation is functional: a subject has at most one object, so a chain of relations has one answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Kinds of entities."""

    PERSON = "person"
    WORK = "work"
    ORGANISATION = "organisation"
    CITY = "city"
    EVENT = "event"
    SPECIES = "species"
    REGION = "region"


class Value(StrEnum):
    """Kinds of objects that are no entities."""

    YEAR = "year"
    NUMBER = "number"
    RIVER = "river"
    """A name that only one passage holds."""
    PROFESSION = "profession"
    """One of a few words: never asked for, because a guess would do."""


class Relation(NamedTuple):
    """A functional relation.

    Attributes:
        name: Name, unique within its subject's kind.
        subject: Kind of subject.
        object: Kind of object.
        phrases: Noun phrases of the object, `{}` is the subject.
        questions: Questions for the object.
        sentences: Statements of a passage; `{s}` is the subject, `{o}` the object.
    """

    name: str
    subject: Kind
    object: Kind | Value
    phrases: tuple[str, ...]
    questions: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def leads_on(self) -> bool:
        """Whether the object is an entity with facts of its own."""
        return isinstance(self.object, Kind)

    @property
    def can_be_asked(self) -> bool:
        """Whether the object is one of many."""
        return self.object is not Value.PROFESSION


RELATIONS: tuple[Relation, ...] = (
    Relation(
        "birth_year",
        Kind.PERSON,
        Value.YEAR,
        ("the birth year of {}",),
        ("In which year was {} born?", "What is the birth year of {}?"),
        sentences=("{s} was born in the year {o}.", "The birth of {s} is dated to {o}."),
    ),
    Relation(
        "birthplace",
        Kind.PERSON,
        Kind.CITY,
        ("the birthplace of {}", "the city where {} was born"),
        ("In which city was {} born?", "What is the birthplace of {}?"),
        sentences=("{s} grew up in the native city of {o}.", "The birthplace of {s} is the city of {o}."),
    ),
    Relation(
        "employer",
        Kind.PERSON,
        Kind.ORGANISATION,
        ("the employer of {}", "the organisation that {} worked for"),
        ("Which organisation did {} work for?", "Who was the employer of {}?"),
        sentences=("{s} worked for {o}.", "For many years {s} was employed by {o}."),
    ),
    Relation(
        "spouse",
        Kind.PERSON,
        Kind.PERSON,
        ("the spouse of {}", "the person married to {}"),
        ("Who was married to {}?", "Who was the spouse of {}?"),
        sentences=("{s} was married to {o}.", "The spouse of {s} was {o}."),
    ),
    Relation(
        "teacher",
        Kind.PERSON,
        Kind.PERSON,
        ("the teacher of {}", "the person who taught {}"),
        ("Who taught {}?", "Who was the teacher of {}?"),
        sentences=("{s} was taught by {o}.", "As a pupil {s} learned everything from {o}."),
    ),
    Relation(
        "profession",
        Kind.PERSON,
        Value.PROFESSION,
        ("the profession of {}",),
        ("What was the profession of {}?",),
        sentences=("{s} made a living as a {o}.", "By profession {s} was a {o}."),
    ),
    Relation(
        "region",
        Kind.CITY,
        Kind.REGION,
        ("the region of {}", "the region in which {} lies"),
        ("In which region does {} lie?", "Which region does {} belong to?"),
        sentences=("{s} lies in the region of {o}.", "The region around {s} is called {o}."),
    ),
    Relation(
        "founder",
        Kind.CITY,
        Kind.PERSON,
        ("the founder of {}", "the person who founded {}"),
        ("Who founded {}?", "Who was the founder of {}?"),
        sentences=("{s} was founded by {o}.", "The founder of {s} was {o}."),
    ),
    Relation(
        "river",
        Kind.CITY,
        Value.RIVER,
        ("the river of {}", "the river that flows through {}"),
        ("Which river flows through {}?", "On which river does {} stand?"),
        sentences=("{s} stands on the river {o}.", "The river that flows through {s} is the {o}."),
    ),
    Relation(
        "population",
        Kind.CITY,
        Value.NUMBER,
        ("the population of {}",),
        ("How many inhabitants does {} have?", "What is the population of {}?"),
        sentences=("{s} has {o} inhabitants.", "The population of {s} is {o}."),
    ),
    Relation(
        "founded",
        Kind.CITY,
        Value.YEAR,
        ("the founding year of {}",),
        ("In which year was {} founded?",),
        sentences=("{s} was settled in the year {o}.", "The settlement of {s} dates from {o}."),
    ),
    Relation(
        "capital",
        Kind.REGION,
        Kind.CITY,
        ("the capital of {}", "the capital city of {}"),
        ("What is the capital of {}?", "Which city is the capital of {}?"),
        sentences=("{s} has its capital at {o}.", "The capital of {s} is {o}."),
    ),
    Relation(
        "governor",
        Kind.REGION,
        Kind.PERSON,
        ("the governor of {}", "the person who governs {}"),
        ("Who governs {}?", "Who is the governor of {}?"),
        sentences=("{s} is governed by {o}.", "The governor of {s} is {o}."),
    ),
    Relation(
        "emblem",
        Kind.REGION,
        Kind.SPECIES,
        ("the emblem of {}", "the species on the emblem of {}"),
        ("Which species is the emblem of {}?",),
        sentences=("{s} has the {o} as its emblem.", "The emblem of {s} shows the {o}."),
    ),
    Relation(
        "area",
        Kind.REGION,
        Value.NUMBER,
        ("the area of {}",),
        ("How many square kilometres does {} cover?", "What is the area of {} in square kilometres?"),
        sentences=("{s} covers {o} square kilometres.", "The area of {s} is {o} square kilometres."),
    ),
    Relation(
        "hq",
        Kind.ORGANISATION,
        Kind.CITY,
        ("the headquarters city of {}", "the city where {} has its headquarters"),
        ("In which city does {} have its headquarters?", "What is the headquarters city of {}?"),
        sentences=("{s} has its headquarters in {o}.", "The main office of {s} is in {o}."),
    ),
    Relation(
        "founder",
        Kind.ORGANISATION,
        Kind.PERSON,
        ("the founder of {}", "the person who founded {}"),
        ("Who founded {}?", "Who was the founder of {}?"),
        sentences=("{s} was founded by {o}.", "The founder of {s} was {o}."),
    ),
    Relation(
        "founded",
        Kind.ORGANISATION,
        Value.YEAR,
        ("the founding year of {}",),
        ("In which year was {} founded?",),
        sentences=("{s} was established in the year {o}.", "The establishment of {s} dates from {o}."),
    ),
    Relation(
        "author",
        Kind.WORK,
        Kind.PERSON,
        ("the author of {}", "the person who wrote {}"),
        ("Who wrote {}?", "Who is the author of {}?"),
        sentences=("{s} was written by {o}.", "The author of {s} is {o}."),
    ),
    Relation(
        "publisher",
        Kind.WORK,
        Kind.ORGANISATION,
        ("the publisher of {}", "the organisation that published {}"),
        ("Which organisation published {}?", "Who is the publisher of {}?"),
        sentences=("{s} was published by {o}.", "The publisher of {s} was {o}."),
    ),
    Relation(
        "setting",
        Kind.WORK,
        Kind.CITY,
        ("the setting of {}", "the city in which {} is set"),
        ("In which city is {} set?", "Which city is the setting of {}?"),
        sentences=("{s} is set in the streets of {o}.", "The story of {s} takes place in {o}."),
    ),
    Relation(
        "year",
        Kind.WORK,
        Value.YEAR,
        ("the publication year of {}",),
        ("In which year did {} appear?",),
        sentences=("{s} appeared in the year {o}.", "The first printing of {s} is from {o}."),
    ),
    Relation(
        "place",
        Kind.EVENT,
        Kind.CITY,
        ("the host city of {}", "the city where {} was held"),
        ("In which city was {} held?", "What is the host city of {}?"),
        sentences=("{s} was held in the city of {o}.", "The host city of {s} was {o}."),
    ),
    Relation(
        "leader",
        Kind.EVENT,
        Kind.PERSON,
        ("the leader of {}", "the person who led {}"),
        ("Who led {}?", "Who was the leader of {}?"),
        sentences=("{s} was led by {o}.", "The leader of {s} was {o}."),
    ),
    Relation(
        "year",
        Kind.EVENT,
        Value.YEAR,
        ("the year of {}",),
        ("In which year did {} happen?",),
        sentences=("{s} happened in the year {o}.", "The date of {s} is {o}."),
    ),
    Relation(
        "habitat",
        Kind.SPECIES,
        Kind.REGION,
        ("the habitat of {}", "the region where {} lives"),
        ("In which region does {} live?", "Which region is the habitat of {}?"),
        sentences=("{s} lives in the region of {o}.", "The habitat of {s} is {o}."),
    ),
    Relation(
        "describer",
        Kind.SPECIES,
        Kind.PERSON,
        ("the describer of {}", "the person who first described {}"),
        ("Who first described {}?",),
        sentences=("{s} was first described by {o}.", "The first description of {s} is by {o}."),
    ),
    Relation(
        "year",
        Kind.SPECIES,
        Value.YEAR,
        ("the year of description of {}",),
        ("In which year was {} first described?",),
        sentences=("{s} was first described in the year {o}.", "The first record of {s} is from {o}."),
    ),
)

BY_NAME: dict[tuple[Kind, str], Relation] = {(relation.subject, relation.name): relation for relation in RELATIONS}

COMPARED: dict[Kind, tuple[str, str, str]] = {
    Kind.PERSON: ("birth_year", "was born earlier", "was born later"),
    Kind.CITY: ("founded", "was founded earlier", "was founded later"),
    Kind.ORGANISATION: ("founded", "was founded earlier", "was founded later"),
    Kind.WORK: ("year", "appeared earlier", "appeared later"),
    Kind.EVENT: ("year", "happened earlier", "happened later"),
    Kind.REGION: ("area", "has the smaller area", "has the larger area"),
}
"""Kind -> relation that two of its entities are compared by, wording for the smaller and the larger value."""

CROSSED: dict[Kind, tuple[str, str, tuple[str, ...]]] = {
    Kind.PERSON: ("employer", "birthplace", ("the person who was born in {b} and worked for {a}",)),
    Kind.ORGANISATION: ("founder", "hq", ("the organisation in {b} that {a} founded",)),
    Kind.WORK: ("author", "setting", ("the work by {a} that is set in {b}",)),
    Kind.EVENT: ("leader", "place", ("the event in {b} that {a} led",)),
}
"""Kind -> two relations that together name one entity, and the noun phrases that say so."""

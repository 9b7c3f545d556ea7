"""Generated worlds and questions from their seeds: the embedded default data.

Nothing in them can be known beforehand: names are made up, facts are drawn. Splits use different names, so what is
learned of one world is of no use in another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.world.composer import HOPS, MOST_HOPS, Composer, Composition, QuestionType
from agent_gym.envs.searchqa.world.facts import LEAST_ENTITIES, Dice, World, make_world
from agent_gym.envs.searchqa.world.names import GeneratedSplit
from agent_gym.envs.searchqa.world.texts import MOST_TOGETHER, Style, make_passages
from agent_gym.retrieval.base import Passage
from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.files import make_folder
from agent_gym.support.seeding import generator, stable_hash

GENERATOR_VERSION = 1
"""Part of every seed: another version makes other worlds, under other ids."""
SOURCE = "generated"
_SHAPES = 40  # shapes drawn for a question before its world counts as too small for it


@dataclass(frozen=True)
class WorldSpec:
    """What decides a generated world, beside its split and number.

    Attributes:
        entities: Entities, and passages if every entity has one.
        aliases: Share of the entities with a second name.
        near_names: Share of the entities whose name is another's with a different ending.
        facts_per_passage: Facts of one passage; an entity with more has several. 0 is no limit.
        style: Wording.
    """

    entities: int = 1_000
    aliases: float = 0.1
    near_names: float = 0.05
    facts_per_passage: int = 0
    style: Style = Style.PROSE

    def __post_init__(self) -> None:
        if self.entities < LEAST_ENTITIES:
            raise ConfigError(f"entities must be at least {LEAST_ENTITIES}, got {self.entities}")
        for name in ("aliases", "near_names"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a share from 0 to 1, got {getattr(self, name)}")
        if self.facts_per_passage < 0:
            raise ConfigError(f"facts_per_passage must be at least 0, got {self.facts_per_passage}")
        if self.style is Style.TERSE and self.near_names:
            raise ConfigError(f"terse names have no endings: near_names must be 0, got {self.near_names}")


@dataclass(frozen=True)
class WorldKey:
    """One world: equal keys make equal worlds on every machine.

    Attributes:
        spec: Size and difficulty.
        split: Whose names.
        number: Which of the split's worlds.
    """

    spec: WorldSpec
    split: GeneratedSplit
    number: int

    def to_record(self) -> dict[str, Any]:
        """Return the key as JSON values; `from_record` reads it back."""
        values = {**asdict(self.spec), "style": self.spec.style.value}
        return {"version": GENERATOR_VERSION, **values, "split": self.split.value, "number": self.number}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> WorldKey:
        """Return the key of `to_record`.

        Raises:
            DataError: The record is no key, or of another version.
        """
        values = dict(record)
        if values.pop("version", None) != GENERATOR_VERSION:
            raise DataError(
                f"this question belongs to a world of generator version {record.get('version')!r}; this package "
                f"makes version {GENERATOR_VERSION}"
            )
        try:
            split, number = GeneratedSplit(values.pop("split")), int(values.pop("number"))
            values["style"] = Style(values["style"])
            return cls(WorldSpec(**values), split, number)
        except (KeyError, TypeError, ValueError) as error:
            names = [field.name for field in fields(WorldSpec)]
            raise DataError(f"a generated world is told by {names}, split and number; got {record!r}") from error

    @property
    def seed(self) -> str:
        """Text that all draws of the world derive from."""
        return stable_hash(json.dumps(self.to_record(), sort_keys=True))

    @property
    def prefix(self) -> str:
        """Start of the world's passage ids."""
        return f"{self.split.value}{self.number}-"


class GeneratedWorld:
    """A world with its passages.

    Args:
        key: Which.

    Attributes:
        key: Which.
        world: Entities and facts.
        passages: The corpus.
        places: For each entity, the passage id of each of its relations.
    """

    def __init__(self, key: WorldKey) -> None:
        spec = key.spec
        self.key = key
        self.world: World = make_world(
            generator("searchqa world", key.seed),
            key.split,
            spec.entities,
            aliases=spec.aliases,
            near_names=spec.near_names,
            short_names=spec.style is Style.TERSE,
        )
        dice = Dice(generator("searchqa passages", key.seed))
        self.passages: list[Passage]
        self.passages, self.places = make_passages(self.world, dice, spec.style, spec.facts_per_passage, key.prefix)
        self._composer: Composer | None = None

    @property
    def composer(self) -> Composer:
        """Makes questions about the world."""
        if self._composer is None:
            spec = self.key.spec
            crossing = not 0 < spec.facts_per_passage < MOST_TOGETHER
            self._composer = Composer(self.world, spec.style, crossing=crossing)
        return self._composer


@dataclass(frozen=True)
class QuestionSpec:
    """Which questions are asked.

    Attributes:
        hops: Fewest and most hops.
        types: Shapes, all when empty.
    """

    hops: tuple[int, int] = (1, MOST_HOPS)
    types: tuple[QuestionType, ...] = ()

    def __post_init__(self) -> None:
        least, most = self.hops
        if not 1 <= least <= most <= MOST_HOPS:
            raise ConfigError(f"hops is (fewest, most) with 1 <= fewest <= most <= {MOST_HOPS}, got {self.hops}")
        for hops in range(least, most + 1):
            if not self.types_of(hops):
                shapes = {kind.value: HOPS[kind] for kind in QuestionType}
                raise ConfigError(
                    f"no question of the types {[kind.value for kind in self.types]} has {hops} hops; (fewest, "
                    f"most) hops of each type: {shapes}"
                )

    def types_of(self, hops: int) -> list[QuestionType]:
        """Return the shapes that can have a number of hops."""
        wanted = self.types or tuple(QuestionType)
        return [kind for kind in wanted if HOPS[kind][0] <= hops <= HOPS[kind][1]]

    def digest(self, spec: WorldSpec, worlds: int) -> str:
        """Return a short name of all settings for task ids."""
        types = ",".join(kind.value for kind in self.types)
        return stable_hash(
            GENERATOR_VERSION, json.dumps(asdict(spec), sort_keys=True), self.hops, types, worlds, size=4
        )


def question_from_seed(world: GeneratedWorld, spec: QuestionSpec, seed: int) -> Question:
    """Return question number `seed` of a world.

    Number of hops and type are drawn first, each of the possible ones being equally likely.

    Args:
        world: The world.
        spec: Which questions are wanted.
        seed: Number of the question.

    Raises:
        ConfigError: The world is too small for such questions.
    """
    dice = Dice(generator("searchqa question", world.key.seed, spec.hops, *spec.types, seed))
    for _ in range(_SHAPES):
        hops = dice.between(spec.hops[0], spec.hops[1] + 1)
        kind = dice.choice(spec.types_of(hops))
        made = world.composer.compose(dice, kind, hops)
        if made is not None:
            return _question(world, made)
    raise ConfigError(
        f"a world of {world.key.spec.entities} entities is too small for questions of {spec.hops} hops; "
        "raise entities"
    )


def _question(world: GeneratedWorld, made: Composition) -> Question:
    entities = world.world.entities
    ids = dict.fromkeys(world.places[number][relation] for number, relation in made.needed)
    titles = dict.fromkeys(entities[number].name for number, _ in made.needed)
    metadata = {
        "type": made.type.value,
        "hops": made.hops,
        "chain": [list(link) for link in made.chain],
        "plan": made.plan,
        "supporting_ids": list(ids),
        "supporting_titles": list(titles),
        "world": world.key.to_record(),
    }
    name = stable_hash(world.key.seed, made.question)
    return Question(SOURCE, name, made.question, made.golds, metadata)


def export_world(key: WorldKey, spec: QuestionSpec, count: int, folder: str | Path) -> dict[str, Any]:
    """Write a world as files that other programs read: `corpus.jsonl` (wiki-18 rows), `questions.jsonl` (FlashRAG
    rows) and `manifest.json`.

    Args:
        key: The world.
        spec: Which questions.
        count: How many.
        folder: Made if it is not there.

    Returns:
        The manifest: generator version, key, counts, SHA-256 of both files.
    """
    folder = Path(folder)
    make_folder(folder)
    world = GeneratedWorld(key)
    rows: list[dict[str, Any]] = [{"id": passage.id, "contents": passage.contents} for passage in world.passages]
    asked = [question_from_seed(world, spec, seed).to_record() for seed in range(count)]
    manifest: dict[str, Any] = {"generator_version": GENERATOR_VERSION, "world": key.to_record(), "files": {}}
    for name, lines in (("corpus.jsonl", rows), ("questions.jsonl", asked)):
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        (folder / name).write_bytes(content)
        manifest["files"][name] = {"rows": len(lines), "sha256": sha256(content).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return manifest

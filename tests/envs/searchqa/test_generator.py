"""The generated world: repeatable, consistent, with one answer to each question, out of reach of one search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_gym.envs.searchqa.data.generator import (
    GeneratedWorld,
    QuestionSpec,
    WorldKey,
    WorldSpec,
    export_world,
    question_from_seed,
)
from agent_gym.envs.searchqa.data.library import generated_retriever, generated_world
from agent_gym.envs.searchqa.oracle import UNKNOWN, next_action
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.world.composer import HOPS, MOST_HOPS, QuestionType
from agent_gym.envs.searchqa.world.facts import telling_word
from agent_gym.envs.searchqa.world.names import GeneratedSplit
from agent_gym.envs.searchqa.world.reading import read_fact
from agent_gym.envs.searchqa.world.relations import RELATIONS, Kind
from agent_gym.envs.searchqa.world.texts import Style
from agent_gym.support.errors import ConfigError, DataError

SPECS = {
    "prose": WorldSpec(entities=200),
    "aliases": WorldSpec(entities=200, aliases=0.6, near_names=0.3),
    "parted": WorldSpec(entities=150, facts_per_passage=1),
    "terse": WorldSpec(entities=60, aliases=0.2, near_names=0.0, style=Style.TERSE),
}


def key(name: str, split: GeneratedSplit = GeneratedSplit.TRAIN, number: int = 0) -> WorldKey:
    return WorldKey(SPECS[name], split, number)


def questions(world: GeneratedWorld, count: int, spec: QuestionSpec | None = None) -> list[Question]:
    return [question_from_seed(world, spec or QuestionSpec(), seed) for seed in range(count)]


def test_equal_keys_make_equal_worlds_and_questions() -> None:
    one, other = (GeneratedWorld(key("aliases")) for _ in range(2))
    assert one.passages == other.passages
    assert questions(one, 20) == questions(other, 20)
    assert GeneratedWorld(key("aliases", number=1)).passages != one.passages


def test_a_world_is_told_by_json_values() -> None:
    for name in SPECS:
        given = key(name, GeneratedSplit.TEST, 3)
        assert WorldKey.from_record(json.loads(json.dumps(given.to_record()))) == given
    with pytest.raises(DataError, match="version"):
        WorldKey.from_record({**key("prose").to_record(), "version": 0})
    with pytest.raises(DataError, match="entities"):
        WorldKey.from_record({"version": 1, "split": "train"})


@pytest.mark.parametrize("name", ["aliases", "terse"])
def test_splits_share_no_name(name: str) -> None:
    words = []
    for split in GeneratedSplit:
        found: set[str] = set()
        for number in range(3):
            for entity in GeneratedWorld(key(name, split, number)).world.entities:
                found |= {telling_word(each).lower() for each in (entity.name, entity.alias) if each}
        words.append(found)
    assert words[0].isdisjoint(words[1])
    assert words[0].isdisjoint(words[2])
    assert words[1].isdisjoint(words[2])


@pytest.mark.parametrize("name", SPECS)
def test_names_are_unique_within_a_world(name: str) -> None:
    entities = GeneratedWorld(key(name)).world.entities
    names = [name for entity in entities for name in (entity.name, entity.alias) if name]
    assert len(set(names)) == len(names)


def test_dates_are_consistent_and_marriages_mutual(world: GeneratedWorld) -> None:
    facts, entities = world.world.facts, world.world.entities

    def year(number: int, relation: str) -> int:
        return int(facts[number][relation].text)

    for entity in entities:
        own = facts[entity.number]
        for relation, date in (
            ("founder", "founded"),
            ("author", "year"),
            ("leader", "year"),
            ("describer", "year"),
        ):
            if relation in own and date in own:
                assert 18 <= int(own[date].text) - year(own[relation].entity, "birth_year") <= 70
        if entity.kind is Kind.PERSON:
            birth = year(entity.number, "birth_year")
            if "birthplace" in own:
                assert year(own["birthplace"].entity, "founded") < birth
            if "teacher" in own:
                assert 15 <= birth - year(own["teacher"].entity, "birth_year") <= 60
            if "employer" in own:
                assert year(own["employer"].entity, "founded") <= birth + 40
            if "spouse" in own:
                assert facts[own["spouse"].entity]["spouse"].entity == entity.number
        if entity.kind is Kind.REGION and "capital" in own:
            assert facts[own["capital"].entity]["region"].entity == entity.number


@pytest.mark.parametrize("name", SPECS)
def test_every_fact_can_be_read_from_its_passage_and_from_no_other_kind_of_sentence(name: str) -> None:
    made = GeneratedWorld(key(name))
    by_id = {passage.id: passage for passage in made.passages}
    for entity, facts, places in zip(made.world.entities, made.world.facts, made.places, strict=True):
        for relation, fact in facts.items():
            read = read_fact([by_id[places[relation]]], entity.kind, entity.name, relation)
            accepted = {fact.text} | ({made.world.entities[fact.entity].alias} if fact.entity >= 0 else set())
            assert read in accepted
        for relation in RELATIONS:
            if relation.subject is entity.kind and relation.name not in facts:
                own = [by_id[place] for place in places.values()]
                assert read_fact(own, entity.kind, entity.name, relation.name) is None


def test_prose_passages_have_the_length_of_encyclopedia_passages(world: GeneratedWorld) -> None:
    lengths = [len(passage.text.split()) for passage in world.passages]
    assert min(lengths) >= 40
    assert max(lengths) <= 110


@pytest.mark.parametrize("name", SPECS)
def test_the_answer_is_not_in_the_question_and_follows_from_the_chain(name: str) -> None:
    made = GeneratedWorld(key(name))
    by_name = {entity.name: entity for entity in made.world.entities}
    for question in questions(made, 60):
        assert all(gold.lower() not in question.question.lower() for gold in question.golds)
        chain = question.metadata["chain"]
        assert chain[-1][2] == question.golds[0]
        for subject, relation, target in chain:
            assert made.world.facts[by_name[subject].number][relation].text == target
        assert len({subject for subject, _, _ in chain}) == question.hops
        assert set(question.supporting_titles) == {subject for subject, _, _ in chain}
        assert set(question.metadata["supporting_ids"]) <= {passage.id for passage in made.passages}


@pytest.mark.parametrize("kind", QuestionType)
def test_every_shape_comes_with_each_of_its_numbers_of_hops(world: GeneratedWorld, kind: QuestionType) -> None:
    least, most = HOPS[kind]
    for hops in range(least, most + 1):
        for question in questions(world, 5, QuestionSpec((hops, hops), (kind,))):
            assert (question.metadata["type"], question.hops) == (kind, hops)


def test_compared_things_are_never_the_answer(world: GeneratedWorld) -> None:
    for question in questions(world, 30, QuestionSpec((3, MOST_HOPS), (QuestionType.COMPARISON,))):
        assert question.golds[0] not in {link[0] for link in question.metadata["chain"][:2]}


def test_no_supporting_passage_can_be_missing(world: GeneratedWorld) -> None:
    by_id = {passage.id: passage for passage in world.passages}
    for question in questions(world, 60):
        support = [by_id[each] for each in question.metadata["supporting_ids"]]
        everything = ["asked already"] * 9
        assert next_action(question, support, everything, 9) == f"answer[{_said(world, question)}]"
        for left_out in support:
            others = [passage for passage in world.passages if passage is not left_out]
            action = next_action(question, others, everything, 1)
            assert action == f"answer[{UNKNOWN}]", (question, left_out)


def _said(world: GeneratedWorld, question: Question) -> str:
    """Return the accepted answer that the last supporting passage states."""
    by_id = {passage.id: passage for passage in world.passages}
    text = " ".join(by_id[each].text for each in question.metadata["supporting_ids"])
    return next(gold for gold in question.golds[::-1] if gold in text)


class TestSpecs:
    def test_out_of_range_settings_are_refused_by_name(self) -> None:
        for wrong in ({"entities": 3}, {"aliases": 2.0}, {"facts_per_passage": -1}):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                WorldSpec(**wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="near_names"):
            WorldSpec(style=Style.TERSE)
        for hops in ((0, 2), (3, 2), (1, MOST_HOPS + 1)):
            with pytest.raises(ConfigError, match="hops"):
                QuestionSpec(hops)
        with pytest.raises(ConfigError, match="comparison"):
            QuestionSpec((1, 3), (QuestionType.COMPARISON,))

    def test_worlds_and_indexes_are_made_once_per_process(self) -> None:
        assert generated_world(key("terse")) is generated_world(key("terse"))
        assert generated_retriever(key("terse")) is generated_retriever(key("terse"))

    def test_an_exported_world_is_told_by_hashes_and_holds_corpus_rows(self, tmp_path: Path) -> None:
        one, other = (export_world(key("terse"), QuestionSpec((1, 2)), 5, tmp_path / name) for name in "ab")
        assert one == other
        rows = [json.loads(line) for line in (tmp_path / "a" / "corpus.jsonl").read_text("utf-8").splitlines()]
        assert rows[0]["contents"].startswith('"')
        assert one["files"]["questions.jsonl"]["rows"] == 5

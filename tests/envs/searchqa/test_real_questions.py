"""The published question sets and real passages, where they are present."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.envs.searchqa.questions.scoring import Scoring, score_answer
from agent_gym.envs.searchqa.tasks import choose_tasks
from agent_gym.retrieval.base import Passage
from agent_gym.retrieval.lexical.bm25 import MemoryBm25
from tests.data import shared_data

SETS = {
    "hotpotqa": {"test": 200, "train": 100},
    "musique": {"train": 100},
    "bamboogle": {"test": 125},
    "nq": {"test": 500},
}


@pytest.fixture(scope="module")
def passages() -> MemoryBm25:
    path = shared_data("searchqa/wiki_passages.jsonl.xz")
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for _, line in zip(range(2_500), stream, strict=False)]
    return MemoryBm25([Passage.from_contents(row["id"], row["contents"]) for row in rows])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("scoring", Scoring)
def test_gold_answers_equal_themselves_and_empty_answers_nothing(name: str, scoring: Scoring) -> None:
    folder = shared_data(f"searchqa/{name}")
    for split, size in SETS[name].items():
        tasks = choose_tasks(folder, split, None)
        assert len(tasks) == size
        assert {task.type for task in tasks} == {name}
        for task in tasks:
            golds = task.record["golden_answers"]
            assert all(score_answer(gold, golds, scoring).em for gold in golds)
            assert not score_answer("", golds, scoring).em


def test_the_whole_folder_is_one_set_of_four_sources(passages: MemoryBm25) -> None:
    folder: Path = shared_data("searchqa")
    env = SearchQAEnv(questions=folder, split="test", retriever=passages)
    assert len(env.tasks) == 200 + 125 + 500
    assert {task.id.partition("/")[0] for task in env.tasks} == {"bamboogle", "hotpotqa", "nq"}


def test_the_oracle_searches_supporting_titles_and_wins_what_the_corpus_lets_be_solved(
    passages: MemoryBm25,
) -> None:
    env = SearchQAEnv(questions=shared_data("searchqa/hotpotqa"), split="test", retriever=passages)
    wins = 0
    for task in env.tasks[:60]:
        _, info = env.reset(seed=0, options={"task_id": task.id})
        while not info["stop_reason"]:
            _, _, _, _, info = env.step(env.oracle_action())
        assert info["success"] or info["searchqa/prediction"] == "unknown"
        wins += info["success"]
    assert wins >= 54

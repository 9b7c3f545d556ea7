from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_gym.retrieval import MemoryBm25, Passage, build_index
from agent_gym.retrieval.lexical.words import STOP_WORDS
from agent_gym.support.errors import DataError
from benchmarks.measure.retrieval.corpus import passages, queries, vocabulary, write_corpus
from benchmarks.measure.retrieval.recall import Recall, measure_recall, read_questions
from benchmarks.measure.retrieval.report import measure_scaling, scaling_table


def test_generated_passages_are_the_same_every_time_and_by_zipf() -> None:
    first = list(passages(300))
    assert list(passages(200)) == first[:200]
    assert len({passage.id for passage in first}) == 300
    words = [word for passage in first for word in passage.text.split()]
    assert 60 < len(words) / 300 < 76
    assert 0.25 < sum(word in STOP_WORDS for word in words) / len(words) < 0.45
    assert len(set(vocabulary())) == len(vocabulary()) == 400_000


def test_queries_find_where_they_come_from() -> None:
    corpus = list(passages(300))
    retriever = MemoryBm25(corpus)
    asked = queries(50, 300)
    assert asked == queries(50, 300)
    found = [retriever.passages(retriever.search(query, 1)) for query in asked]
    assert sum(query in hits[0].text for query, hits in zip(asked, found, strict=True) if hits) >= 45


def test_recall_counts_supporting_passages(tmp_path: Path) -> None:
    corpus = [Passage("a", "", "red river"), Passage("b", "", "red castle"), Passage("c", "", "green")]
    rows = [("red river", ["a", "b"]), ("green", ["c"]), ("green red", ["a", "zebra"])]
    lines = [json.dumps({"question": q, "metadata": {"supporting_ids": ids}}) for q, ids in rows]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    questions = read_questions(tmp_path / "questions.jsonl")
    one, three = measure_recall(MemoryBm25(corpus), questions, [1, 3])
    assert one == Recall(3, 1, pytest.approx(2 / 3), pytest.approx(1 / 3), pytest.approx(0.5))
    assert three == Recall(3, 3, 1.0, pytest.approx(2 / 3), pytest.approx((1 + 1 + 0.5) / 3))
    (tmp_path / "bare.jsonl").write_text('{"question": "a", "metadata": {}}')
    with pytest.raises(DataError, match="supporting_ids"):
        read_questions(tmp_path / "bare.jsonl")


@pytest.mark.slow
def test_scaling_is_measured(tmp_path: Path) -> None:
    figures = measure_scaling(500, 20, tmp_path, seconds=0.2)
    assert figures["passages"] == 500
    assert 0 < figures["p50_cpu_ms"] <= figures["p95_cpu_ms"]
    assert figures["hits_per_query"] > 2
    assert figures["queries_per_s"] > 0
    assert scaling_table(figures).row_count == 11
    assert "build_cpu_s" not in measure_scaling(500, 20, tmp_path, seconds=0.1)


def test_a_server_under_load_answers_rightly(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the extra [search] is not installed")
    pytest.importorskip("httpx", reason="the extra [search] is not installed")
    from benchmarks.measure.retrieval.load import measure_load

    write_corpus(tmp_path / "corpus.jsonl", 200)
    build_index(tmp_path / "corpus.jsonl", tmp_path / "index")
    figures = measure_load(tmp_path / "index", queries(40, 200), clients=8, seconds=1.0)
    assert figures.requests > 8
    assert figures.wrong == 0 and figures.errors == {}

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.retrieval.lexical import inversion, lucene
from agent_gym.retrieval.lexical.lucene import LuceneIndex
from agent_gym.retrieval.lexical.postings import ARRAYS, read_postings
from agent_gym.retrieval.lexical.similarity import K1, B, encoded_length
from agent_gym.support.errors import ConfigError, DataError
from tests.data import read_json
from tests.envs.webshop.recorded import FOLDER, products

DOCUMENTS = [
    ("c", "red running shoes for men"),
    ("a", "running shoes, red"),
    ("b", "a red dress"),
    ("d", "the of and"),
    ("e", "blue shoes shoes shoes with a box"),
]


@pytest.fixture(scope="module")
def recorded_index() -> LuceneIndex:
    found = {product.asin: product.index_text() for product in reversed(products())}
    return LuceneIndex.build(
        [(product.asin, found.pop(product.asin)) for product in products() if product.asin in found]
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> LuceneIndex:
    return LuceneIndex.build(DOCUMENTS, tmp_path_factory.mktemp("lucene") / "index")


def test_recorded_lucene_rankings_are_reproduced(recorded_index):
    rows = read_json(f"{FOLDER}/lucene_rankings.json.xz")
    first_ten = whole = 0
    overlap = []
    for row in rows:
        hits = recorded_index.search(row["query"], 50)
        ids = [hit.id for hit in hits]
        first_ten += ids[:10] == row["asins"][:10]
        whole += ids == row["asins"]
        overlap.append(len(set(ids) & set(row["asins"])) / len(row["asins"]))
        assert [hit.score for hit in hits] == pytest.approx(row["scores"], rel=1e-4)
    assert first_ten / len(rows) >= 0.99
    assert float(np.mean(overlap)) >= 0.995
    assert whole == len(rows)


WORDS = [f"w{number}" for number in range(14)]


def naive(documents, query, k):
    """Every document scored by the formula."""
    index = LuceneIndex.build(documents)
    texts = [Counter(index.analyzer.terms(text)) for _, text in documents]
    filled = sum(bool(text) for text in texts)
    mean = np.float32(max(sum(text.total() for text in texts), 1) / max(filled, 1))
    one, k1, b = np.float32(1), np.float32(K1), np.float32(B)
    scores = []
    for (id, _), text in zip(documents, texts, strict=True):
        total = 0.0
        norm = one / (k1 * ((one - b) + b * np.float32(encoded_length(text.total())) / mean))
        for term, boost in Counter(index.analyzer.terms(query)).items():
            if term in text:
                matching = sum(term in other for other in texts)
                weight = np.float32(boost) * np.float32(np.log1p((filled - matching + 0.5) / (matching + 0.5)))
                total += float(weight - weight / (one + np.float32(text[term]) * norm))
        if any(term in text for term in index.analyzer.terms(query)):
            scores.append((-np.float32(total), id.encode()))
    return sorted(scores)[:k]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([f"w{n}" for n in range(12)] + ["the"]), max_size=60), min_size=1, max_size=40
    ),
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.integers(1, 12),
)
def test_search_finds_what_scoring_every_document_finds(texts, query, k):
    documents = [(f"id{(7 * n) % 41:02d}", " ".join(text)) for n, text in enumerate(texts)]
    hits = LuceneIndex.build(documents).search(" ".join(query), k)
    expected = naive(documents, " ".join(query), k)
    assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in expected], rel=1e-6)
    if len({round(float(score), 5) for score, _ in expected}) in (1, len(expected)):
        assert [hit.id.encode() for hit in hits] == [id for _, id in expected]


def test_queries_of_many_postings_are_added_up_in_parts(monkeypatch):
    documents = [(product.asin, product.index_text()) for product in products()[:300]]
    query = " ".join(text for _, text in documents[:3])
    expected = LuceneIndex.build(documents).search(query, 50)
    monkeypatch.setattr(lucene, "_LEAST", 16)
    monkeypatch.setattr(lucene, "_MOST", 97)
    assert LuceneIndex.build(documents).search(query, 50) == expected


def test_equal_scores_are_ordered_by_id(stored):
    tied = LuceneIndex.build([("z", "red shoe"), ("Z", "red shoe"), ("é", "red shoe"), ("10", "red shoe")])
    assert [hit.id for hit in tied.search("red", 10)] == ["10", "Z", "z", "é"]
    assert [hit.id for hit in tied.search("red", 2)] == ["10", "Z"]


def test_lengths_are_kept_in_one_byte_as_lucene_does():
    expected = {0: 0, 23: 23, 40: 40, 41: 40, 55: 54, 57: 56, 100: 96, 150: 144, 500: 472}
    assert {length: encoded_length(length) for length in expected} == expected


def test_repeated_query_words_count_as_often_as_they_stand_there(stored):
    once, twice = (stored.search(query, 1)[0].score for query in ("dress", "dress dress"))
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize(
    "query", ["", "the of", "unheard-of", "\0", "x" * 100_000, "' OR 1=1; -- \ud800 AND NOT [", "*:*"]
)
def test_any_text_is_a_query(stored, query):
    assert isinstance(stored.search(query, 3), list)


def test_documents_without_words_are_never_found_and_not_counted_in_the_mean(stored):
    assert all(hit.id != "d" for hit in stored.search("red shoes dress box the", 10))
    assert stored.size == 5


def test_k_below_one_is_an_error(stored):
    with pytest.raises(ConfigError, match="at least 1"):
        stored.search("red", 0)


def test_stored_index_ranks_as_the_one_in_memory_and_as_its_copies(stored):
    memory = LuceneIndex.build(DOCUMENTS)
    hits = memory.search("red running shoes", 5)
    assert hits
    for other in (
        stored,
        copy.deepcopy(stored),
        pickle.loads(pickle.dumps(stored)),
        pickle.loads(pickle.dumps(memory)),
    ):
        assert other.search("red running shoes", 5) == hits
        assert other.fingerprint == memory.fingerprint
    assert copy.deepcopy(stored) is stored
    assert len(pickle.dumps(stored)) < 1000


def test_threads_and_forked_processes_share_one_index(recorded_index):
    queries = [f"{product.title} {product.query}" for product in products()[:40]]
    expected = [recorded_index.search(query, 10) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda query: recorded_index.search(query, 10), queries)) == expected
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(recorded_index.search_many(queries, 10)))
    child.start()
    assert receiver.recv() == expected
    child.join()
    assert child.exitcode == 0


def test_chunks_make_the_same_index_as_one_pass(tmp_path, monkeypatch):
    documents = [(product.asin, product.index_text()) for product in products()[:120]]
    whole = LuceneIndex.build(documents)
    monkeypatch.setattr(inversion, "CHUNK", 7)
    parts = LuceneIndex.build(iter(documents), tmp_path / "parts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]
    for query in ("women's shoes size 8", "gluten free snack", documents[50][1]):
        assert parts.search(query, 50) == whole.search(query, 50)


def test_a_word_that_fills_a_huge_document_is_counted():
    index = LuceneIndex.build([("a", "red " * 300_000 + "blue " * 100), ("b", "red dress"), ("c", "blue")])
    assert [hit.id for hit in index.search("red", 3)] == ["a", "b"]
    assert [hit.id for hit in index.search("blue", 3)] == ["a", "c"]


def test_interrupted_build_leaves_nothing(tmp_path):
    def documents():
        yield "a", "red shoe"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LuceneIndex.build(documents(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_unusable_input_and_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="share the id 'a'"):
        LuceneIndex.build([("a", "x"), ("a", "y")])
    with pytest.raises(DataError, match="at least one document"):
        LuceneIndex.build([], tmp_path / "empty")
    with pytest.raises(DataError, match="exists already"):
        LuceneIndex.build(DOCUMENTS, tmp_path)
    with pytest.raises(DataError, match=r"no manifest\.json"):
        LuceneIndex.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"kind": "other", "version": 3}')
    with pytest.raises(DataError, match="'other' version 3"):
        read_postings(tmp_path)


def shorten(path):
    np.save(path, np.load(path)[:-1])


@pytest.mark.parametrize("name", ARRAYS)
def test_an_index_with_a_damaged_array_is_refused_when_it_is_opened(name, tmp_path):
    LuceneIndex.build(DOCUMENTS, tmp_path / "index")
    path = tmp_path / "index" / f"{name}.npy"
    damages = [lambda: path.write_bytes(b""), path.unlink]
    if name != "pair_values":  # which pairs occur is not known without reading all postings
        damages.insert(0, lambda: shorten(path))
    for damage in damages:
        damage()
        with pytest.raises(DataError, match="damaged"):
            LuceneIndex.open(tmp_path / "index")


def test_an_index_with_a_damaged_manifest_is_refused_when_it_is_opened(tmp_path):
    LuceneIndex.build(DOCUMENTS, tmp_path / "index")
    path = tmp_path / "index" / "manifest.json"
    whole = path.read_text()
    kept = json.loads(whole)
    names = ("kind", "version", "tokens", "filled", "analyzer", "fingerprint")
    missing = [json.dumps({key: value for key, value in kept.items() if key != name}) for name in names]
    for text in (whole[: len(whole) // 2], "", "[]", "\udc80", *missing, json.dumps({**kept, "tokens": "many"})):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match="again"):
            LuceneIndex.open(tmp_path / "index")


def test_an_index_is_only_searched_with_the_analyzer_that_built_it(stored, tmp_path):
    class Other:
        name = "other"

        def words(self, text: str) -> list[str]:
            return text.split()

        def term(self, word: str) -> str | None:
            return word

        def terms(self, text: str) -> list[str]:
            return text.split()

    LuceneIndex.build(DOCUMENTS, tmp_path / "other", Other())
    assert LuceneIndex.open(tmp_path / "other", Other()).search("shoes,", 1)[0].id == "a"
    with pytest.raises(DataError, match="'other'"):
        LuceneIndex.open(tmp_path / "other")

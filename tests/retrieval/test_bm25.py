"""Lexical search: rankings, hostile queries and passages, sharing."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_gym.retrieval import Bm25Retriever, MemoryBm25, Passage, UnknownPassageError
from agent_gym.retrieval.lexical.words import MOST_WORDS, query_words
from agent_gym.support.errors import ConfigError, DataError

QUERIES = (
    "river item7",
    "which painter is item16",
    "The same castle text",
    "harbour",
    "engine item3 item17 item24",
)

HOSTILE = (
    "",
    " ",
    "\x00\x01\x1b[31m",
    "x" * 100_000,
    "river " * 20_000,
    "'; DROP TABLE passages; --",
    'title:river AND (text:"item7" OR',
    "river^99999999999 [a TO *} /re.*/ ~",
    "<answer>river</answer>",
    "\u202eriver\u202c",
    "\ud800river",
    "𝓻iver é日本語",
)


@pytest.mark.parametrize("query", QUERIES)
def test_memory_and_disk_rank_alike(query: str, on_disk: Bm25Retriever, in_memory: MemoryBm25) -> None:
    assert on_disk.search(query, 7) == in_memory.search(query, 7) != []


def test_memory_and_disk_have_one_fingerprint(on_disk: Bm25Retriever, in_memory: MemoryBm25) -> None:
    assert on_disk.fingerprint == in_memory.fingerprint
    assert on_disk.fingerprint != MemoryBm25([Passage("0", "", "other")]).fingerprint


def test_the_only_passage_with_a_word_comes_first(on_disk: Bm25Retriever, passages: list[Passage]) -> None:
    for number in (1, 7, 113, 299):
        best = on_disk.search(f"What is item{number}?", 3)[0]
        assert best.doc == number and best.id == f"p{number}"
        assert on_disk.passage(best.id) == passages[number]


def test_equal_passages_keep_the_order_of_the_corpus() -> None:
    retriever = MemoryBm25([Passage(str(n), "", "one and the same text") for n in range(200)])
    for k in (1, 3, 50, 200, 500):
        assert [hit.doc for hit in retriever.search("same", k)] == list(range(min(k, 200)))


def test_more_hits_extend_fewer(on_disk: Bm25Retriever) -> None:
    for query in QUERIES:
        longest = on_disk.search(query, 60)
        for k in range(1, 60):
            assert on_disk.search(query, k) == longest[:k]


def test_stems_accents_and_case_match() -> None:
    retriever = MemoryBm25([Passage("a", "Beyoncé", "She was running."), Passage("b", "Other", "Nothing.")])
    for query in ("beyonce", "BEYONCÉ", "runs"):
        assert [hit.id for hit in retriever.search(query, 2)] == ["a"]


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    retriever = MemoryBm25([Passage("a", "The Who", "A band."), Passage("b", "River", "It is in the north.")])
    assert retriever.search("The Who", 1)[0].id == "a"
    assert [hit.id for hit in retriever.search("who is in the river", 2)] == ["b"]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_just_words(query: str, on_disk: Bm25Retriever) -> None:
    hits = on_disk.search(query, 3)
    assert len(hits) <= 3
    words = {word for word, _ in query_words(query)}
    for passage in on_disk.passages(hits):
        assert words & {word for word, _ in query_words(passage.contents)}


@given(st.text())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_query(on_disk: Bm25Retriever, query: str) -> None:
    hits = on_disk.search(query, 4)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.doc for hit in hits}) == len(hits)


def test_a_long_query_is_cut_to_its_first_words() -> None:
    assert len(query_words(" ".join(f"w{n}" for n in range(5000)))) == MOST_WORDS


def test_hostile_passages_come_back_as_they_are() -> None:
    hostile = [
        Passage("nul", "with \x00 inside", "a\x00b needle1"),
        Passage("rtl", "\u202eevil\u202c", "\u200fשלום needle2"),
        Passage("tags", "</information>", "<answer>Paris</answer> needle3\r\n\u2028"),
        Passage("big", "Big", "filler " * 150_000 + "needle4"),
        Passage("", "", "needle5"),
    ]
    retriever = MemoryBm25(hostile)
    for number, passage in enumerate(hostile, 1):
        assert retriever.passages(retriever.search(f"needle{number}", 1)) == [passage]


@pytest.mark.parametrize("k", [0, -1, True, 2.5])
def test_k_is_a_positive_number(k: int, on_disk: Bm25Retriever) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        on_disk.search("river", k)


def test_unknown_ids_are_named(on_disk: Bm25Retriever, in_memory: MemoryBm25) -> None:
    for retriever in (on_disk, in_memory):
        with pytest.raises(UnknownPassageError, match="no passage 'p300' among the 300"):
            retriever.passage("p300")


def test_equal_ids_are_refused() -> None:
    with pytest.raises(DataError, match="'a' occurs twice"):
        MemoryBm25([Passage("a", "", "x"), Passage("a", "", "y")])


def test_copies_share_and_pickles_reopen(on_disk: Bm25Retriever, in_memory: MemoryBm25) -> None:
    assert copy.deepcopy({"r": on_disk})["r"] is on_disk
    assert copy.copy(in_memory) is in_memory
    assert pickle.loads(pickle.dumps(on_disk)) is on_disk
    assert len(pickle.dumps(on_disk)) < 1000
    again = pickle.loads(pickle.dumps(in_memory))
    assert again.fingerprint == in_memory.fingerprint and again.search("river", 5) == in_memory.search("river", 5)


def test_threads_get_the_same_hits(on_disk: Bm25Retriever) -> None:
    expected = [on_disk.search(query, 5) for query in QUERIES]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: on_disk.search(QUERIES[n % len(QUERIES)], 5), range(400)))
    assert found == [expected[n % len(QUERIES)] for n in range(400)]


def _search_in_child(retriever: Bm25Retriever, queue: multiprocessing.SimpleQueue) -> None:  # type: ignore[type-arg]
    queue.put([retriever.search(query, 5) for query in QUERIES])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("which", ["on_disk", "in_memory"])
def test_other_processes_get_the_same_hits(method: str, which: str, request: pytest.FixtureRequest) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no start method {method} on this system")
    retriever = request.getfixturevalue(which)
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=_search_in_child, args=(retriever, queue))
    child.start()
    found = queue.get()
    child.join(60)
    assert child.exitcode == 0
    assert found == [retriever.search(query, 5) for query in QUERIES]

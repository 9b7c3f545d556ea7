"""The service's JSON in both dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.retrieval import Hit, Passage, RetrieverError, RetrieverResponseError
from agent_gym.retrieval.service.wire import Dialect, read_answer, read_request, write_answer, write_request
from agent_gym.support.errors import ConfigError

LIMITS = {"default_k": 3, "most_k": 50, "most_queries": 4}


def test_requests_have_the_published_forms() -> None:
    assert write_request(["a", "b"], 3, Dialect.SEARCH_R1) == {
        "queries": ["a", "b"],
        "topk": 3,
        "return_scores": True,
    }
    assert write_request(["a"], 5, Dialect.VERL_AGENT) == {"query": "a", "topk": 5, "return_scores": True}


@pytest.mark.parametrize(
    ("body", "queries", "k", "scores"),
    [
        ({"queries": ["a", "b"], "topk": 5, "return_scores": True}, ("a", "b"), 5, True),
        ({"query": "a", "topk": 1, "return_scores": False}, ("a",), 1, False),
        ({"queries": ["a"], "topk": None}, ("a",), 3, False),
        ({"query": "", "topk": 0, "return_scores": None}, ("",), 3, False),
    ],
)
def test_either_dialect_is_read(body: dict[str, Any], queries: tuple[str, ...], k: int, scores: bool) -> None:
    request = read_request(body, **LIMITS)
    assert (request.queries, request.k, request.scores) == (queries, k, scores)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "JSON object, got list"),
        ({}, 'either "queries"'),
        ({"query": "a", "queries": ["a"]}, 'either "queries"'),
        ({"query": ["a"]}, "a text"),
        ({"queries": "a"}, "list of texts"),
        ({"queries": ["a", None]}, "list of texts"),
        ({"queries": []}, "1 to 4 queries, got 0"),
        ({"queries": ["a"] * 5}, "1 to 4 queries, got 5"),
        ({"query": "a", "topk": 51}, "0 to 50"),
        ({"query": "a", "topk": -1}, "0 to 50"),
        ({"query": "a", "topk": True}, "0 to 50"),
        ({"query": "a", "topk": "3"}, "0 to 50"),
        ({"query": "a", "return_scores": 1}, "return_scores"),
    ],
)
def test_bad_requests_say_what_is_expected(body: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_request(body, **LIMITS)


STORED = st.characters(codec="utf-8")  # an index holds no lone surrogates
LINE = st.characters(codec="utf-8", exclude_characters="\n")


@given(st.lists(st.builds(Passage, st.text(STORED, min_size=1), st.text(LINE), st.text(STORED))))
def test_answers_survive_the_wire(passages: list[Passage]) -> None:
    found = [(Hit(n, passage.id, 9.5 - n), passage) for n, passage in enumerate(passages)]
    scored = read_answer(json.loads(json.dumps(write_answer([found], True))), 1)[0]
    assert [(hit.id, hit.score, hit.passage) for hit in scored] == [(h.id, h.score, p) for h, p in found]
    bare = read_answer(json.loads(json.dumps(write_answer([found], False))), 1)[0]
    assert [hit.passage for hit in bare] == passages
    assert [hit.score for hit in bare] == [float(-n) for n in range(len(passages))]


@pytest.mark.parametrize(
    "document",
    [
        {"id": 7, "contents": '"T"\nx'},
        {"_id": "7", "title": "T", "text": "x"},
        {"id": "7", "text": "x", "title": "T", "contents": '"T"\nx'},
    ],
)
def test_document_forms_of_other_servers(document: dict[str, Any]) -> None:
    hit = read_answer({"result": [[{"document": document, "score": 1}]]}, 1)[0][0]
    assert hit.passage == Passage("7", "T", "x") and hit.score == 1.0


def test_documents_without_an_id_are_told_apart_by_their_text() -> None:
    hits = read_answer({"result": [[{"contents": "a"}, {"contents": "b"}, "a"]]}, 1)[0]
    assert hits[0].id == hits[2].id != hits[1].id


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"result": None},
        {"result": [1]},
        {"result": []},
        {"result": [[], []]},
        {"result": [[1]]},
        {"result": [[{"document": {"id": "1"}, "score": 1}]]},
        {"result": [[{"document": {"id": "1", "text": "a"}, "score": "high"}]]},
        {"result": [[{"document": {"id": "1", "text": "a"}, "score": float("nan")}]]},
        {"error": "down"},
    ],
)
def test_answers_of_another_form_are_errors(body: Any) -> None:
    with pytest.raises(RetrieverResponseError) as caught:
        read_answer(body, 1)
    assert isinstance(caught.value, RetrieverError)

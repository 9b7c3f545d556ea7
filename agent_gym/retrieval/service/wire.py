"""The retrieval service's JSON: requests and answers in both published dialects.

Search-R1 sends `{"queries": [...], "topk": 3, "return_scores": true}`; verl-agent and SkyRL send `{"query": "..."}`
with the same options. Both expect `{"result": [[item, ...], ...]}`, one list per query, where an item is
`{"document": {"id", "contents"}, "score": s}`, or the bare document when scores were not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

from agent_gym.retrieval.base import UNKNOWN_DOC, Hit, Passage, RetrieverResponseError, clean_text
from agent_gym.support.errors import ConfigError


class Dialect(StrEnum):
    """How a client asks."""

    SEARCH_R1 = "search-r1"
    """A list of queries in one request."""
    VERL_AGENT = "verl-agent"
    """One query a request."""


@dataclass(frozen=True, slots=True)
class RetrieveRequest:
    """A request as the server understands it, whichever the dialect.

    Attributes:
        queries: The queries, at least one.
        k: Hits wanted per query.
        scores: Whether items carry scores.
    """

    queries: tuple[str, ...]
    k: int
    scores: bool


def write_request(queries: Sequence[str], k: int, dialect: Dialect) -> dict[str, Any]:
    """Return the body of a request.

    Raises:
        ConfigError: The dialect takes one query and there are others.
    """
    options = {"topk": k, "return_scores": True}
    if dialect is Dialect.SEARCH_R1:
        return {"queries": [clean_text(query) for query in queries], **options}
    if len(queries) != 1:
        raise ConfigError(f"a {dialect} request carries one query, got {len(queries)}")
    return {"query": clean_text(queries[0]), **options}


def read_request(body: Any, default_k: int, most_k: int, most_queries: int) -> RetrieveRequest:
    """Return a request read from JSON; `topk` null, 0 or absent means the default.

    Raises:
        ConfigError: The body is no request, or it asks for more than the limits.
    """
    if not isinstance(body, dict):
        raise ConfigError(f"the body is a JSON object, got {type(body).__name__}")
    if ("queries" in body) == ("query" in body):
        raise ConfigError('give either "queries" (a list of texts) or "query" (a text)')
    queries = body["queries"] if "queries" in body else [body["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise ConfigError('"queries" is a list of texts and "query" is a text')
    if not 1 <= len(queries) <= most_queries:
        raise ConfigError(f"a request carries 1 to {most_queries} queries, got {len(queries)}")
    k = body.get("topk")
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= most_k):
        raise ConfigError(f'"topk" is a whole number of 0 to {most_k} or null, got {k!r}')
    scores = body.get("return_scores")
    if scores is not None and not isinstance(scores, bool):
        raise ConfigError(f'"return_scores" is true, false or null, got {scores!r}')
    return RetrieveRequest(tuple(queries), k or default_k, bool(scores))


def write_answer(results: Sequence[Sequence[tuple[Hit, Passage]]], scores: bool) -> dict[str, Any]:
    """Return the body of an answer."""

    def item(hit: Hit, passage: Passage) -> dict[str, Any]:
        document = {"id": passage.id, "contents": passage.contents}
        return {"document": document, "score": hit.score} if scores else document

    return {"result": [[item(hit, passage) for hit, passage in found] for found in results]}


def read_answer(body: Any, queries: int) -> list[list[Hit]]:
    """Return the hits of an answer; their passages come with them.

    Bare documents have the scores 0, -1, -2 ..., which keep their order; documents without an id get a digest of
    their text, so that equal texts are equal documents.

    Args:
        body: The answer's JSON.
        queries: Number of queries that were asked.

    Raises:
        RetrieverResponseError: The answer does not have the documented form.
    """
    result = body.get("result") if isinstance(body, dict) else None
    if not isinstance(result, list) or not all(isinstance(found, list) for found in result):
        raise RetrieverResponseError(f'expected {{"result": [[...], ...]}} from the server, got {_excerpt(body)}')
    if len(result) != queries:
        raise RetrieverResponseError(f"asked {queries} queries, got {len(result)} lists of documents")
    return [[_read_item(item, rank) for rank, item in enumerate(found)] for found in result]


def _read_item(item: Any, rank: int) -> Hit:
    document, score = item, None
    if isinstance(item, Mapping) and "document" in item:
        document, score = item["document"], item.get("score")
    if score is None:
        score = -rank
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise RetrieverResponseError(f"expected a number as score, got {score!r}")
    passage = _read_document(document)
    return Hit(UNKNOWN_DOC, passage.id, float(score), passage)


def _read_document(document: Any) -> Passage:
    if isinstance(document, str):
        document = {"contents": document}
    if not isinstance(document, Mapping):
        raise RetrieverResponseError(f"expected a document as JSON object, got {_excerpt(document)}")
    id = document.get("id", document.get("_id"))
    contents, title, text = document.get("contents"), document.get("title"), document.get("text")
    if isinstance(contents, str):
        passage = Passage.from_contents("", clean_text(contents))
    elif isinstance(text, str):
        passage = Passage("", clean_text(title) if isinstance(title, str) else "", clean_text(text))
    else:
        raise RetrieverResponseError(f'expected a document with "contents" or "text", got {_excerpt(document)}')
    if id is None:
        id = sha256(passage.contents.encode("utf-8")).hexdigest()[:16]
    return Passage(clean_text(str(id)), passage.title, passage.text)


def _excerpt(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."

"""Arguments of the SearchQA environment: reading what users give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agent_gym.envs.searchqa.data.generator import QuestionSpec, WorldSpec
from agent_gym.envs.searchqa.world.composer import MOST_HOPS, QuestionType
from agent_gym.envs.searchqa.world.texts import Style
from agent_gym.retrieval.base import Retriever
from agent_gym.support.checks import check_choice, check_whole, several
from agent_gym.support.errors import ConfigError, suggest

_TERSE_ENTITIES = 60


def question_spec(hops: Any, types: Any) -> QuestionSpec:
    """Return which questions are generated.

    Args:
        hops: A number, (fewest, most), or None for what the types allow.
        types: A type, several, or None for all.

    Raises:
        ConfigError: One is out of range.
    """
    kinds = tuple(dict.fromkeys(check_choice("types", QuestionType, kind) for kind in several("types", types)))
    if hops is None:
        from agent_gym.envs.searchqa.world.composer import HOPS

        least = min((HOPS[kind][0] for kind in kinds), default=1)
        return QuestionSpec((least, MOST_HOPS), kinds)
    pair = tuple(several("hops", hops))
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2:
        raise ConfigError(f"hops is a number or (fewest, most), got {hops!r}")
    return QuestionSpec((check_whole("hops", pair[0], 1), check_whole("hops", pair[1], 1)), kinds)


def world_spec(style: Any, knobs: Mapping[str, Any]) -> WorldSpec:
    """Return the size and difficulty of generated worlds; terse ones are small and plain unless asked otherwise."""
    worded = check_choice("style", Style, Style.PROSE if style is None else style)
    usual: dict[str, Any] = {}
    if worded is Style.TERSE:
        usual = {"entities": _TERSE_ENTITIES, "aliases": 0.0, "near_names": 0.0}
    return WorldSpec(style=worded, **{**usual, **knobs})


def retriever_of(
    corpus: str | Path | None,
    retriever: Retriever | str | Path | None,
    settings: Mapping[str, Any] | None = None,
) -> Retriever | None:
    """Return the retriever that the arguments name, or None for that of the generated world.

    Args:
        corpus: A corpus file or an index folder.
        retriever: A retriever, or the address of a server.
        settings: Fields of `RemoteConfig`, for an address.

    Raises:
        ConfigError: Both are given, or settings that nothing uses.
        DataError: What is named is not there.
    """
    if corpus is not None and retriever is not None:
        raise ConfigError("corpus= and retriever= both say where passages come from; drop one of them")
    remote = isinstance(retriever, str) and "://" in retriever
    if settings and not remote:
        raise ConfigError(f"retriever_options say how a server is asked; retriever={retriever!r} is no address")
    if isinstance(retriever, Retriever):
        return retriever
    if settings:
        return _server(str(retriever), settings)
    named = retriever if retriever is not None else corpus
    if named is None:
        return None
    if not isinstance(named, (str, Path)):
        raise ConfigError(f"retriever must be a path, an address or a Retriever, got {type(named).__name__}")
    from agent_gym.retrieval.opening import open_retriever

    return open_retriever(named)


def _server(address: str, settings: Mapping[str, Any]) -> Retriever:
    from agent_gym.retrieval.service.remote import RemoteConfig, RemoteRetriever
    from agent_gym.retrieval.service.wire import Dialect

    known = [field.name for field in fields(RemoteConfig)]
    for name in settings:
        if name not in known:
            raise ConfigError(f"retriever_options has no {name!r}; known: {known}.{suggest(name, known)}")
    values = dict(settings)
    if "dialect" in values:
        values["dialect"] = check_choice("dialect", Dialect, values["dialect"])
    return RemoteRetriever(address, RemoteConfig(**values))

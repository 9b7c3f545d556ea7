"""Reading facts out of passages: what the oracle understands of the generated world's text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from agent_gym.envs.searchqa.world.relations import BY_NAME, Kind
from agent_gym.envs.searchqa.world.texts import ALIAS
from agent_gym.retrieval.base import Passage

_SENTENCE = re.compile(r"[^.]+\.")


@lru_cache(maxsize=256)
def _patterns(kind: Kind, relation: str) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for each wording of a relation, groups s and o; the terse one has no s."""
    wordings = [_pattern(sentence) for sentence in BY_NAME[kind, relation].sentences]
    return (*wordings, re.compile(rf"(?:.*: )?(?:alias \S+\. )?{relation} (?P<o>.+)\."))


def _pattern(sentence: str) -> re.Pattern[str]:
    return re.compile(re.escape(sentence).replace(r"\{s\}", "(?P<s>.+)").replace(r"\{o\}", "(?P<o>.+)"))


_ALIAS = _pattern(ALIAS)
_TERSE_ALIAS = re.compile(r"(?:.*: )?alias (?P<o>\S+)\.")


def read_fact(passages: Iterable[Passage], kind: Kind, subject: str, relation: str) -> str | None:
    """Return the object of a relation as the passages state it, or None.

    Args:
        passages: What was retrieved.
        kind: Kind of the subject.
        subject: Name or alias of the subject.
        relation: Name of the relation.
    """
    for passage in passages:
        if subject in names_of(passage):
            found = _stated(passage, kind, relation)
            if found is not None:
                return found
    return None


def read_subject(passages: Iterable[Passage], kind: Kind, wanted: Iterable[tuple[str, str]]) -> str | None:
    """Return the title of a passage that states all of the given facts, or None.

    Args:
        passages: What was retrieved.
        kind: Kind of the subject looked for.
        wanted: Relations and their objects. One title's passages may state them together.
    """
    wanted = list(wanted)
    stated: dict[str, set[str]] = {}
    for passage in passages:
        facts = stated.setdefault(passage.title, set())
        facts.update(relation for relation, text in wanted if _stated(passage, kind, relation) == text)
        if len(facts) == len(wanted):
            return passage.title
    return None


def names_of(passage: Passage) -> set[str]:
    """Return the names that a passage gives its subject."""
    names = {passage.title}
    for sentence in _sentences(passage.text):
        match = _ALIAS.fullmatch(sentence) or _TERSE_ALIAS.fullmatch(sentence)
        if match:
            names.add(match["o"])
    return names


def _stated(passage: Passage, kind: Kind, relation: str) -> str | None:
    for sentence in _sentences(passage.text):
        for pattern in _patterns(kind, relation):
            match = pattern.fullmatch(sentence)
            if match and match.groupdict().get("s", passage.title) == passage.title:
                return match["o"]
    return None


@lru_cache(maxsize=4_096)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(sentence.strip() for sentence in _SENTENCE.findall(text))

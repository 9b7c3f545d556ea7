"""Scores of a predicted answer against the gold answers.

`squad` is the published scoring of Search-R1, FlashRAG and SQuAD: lower-case, delete ASCII punctuation, drop
articles, collapse blanks. Its known oddities are kept: "3.5" equals "35", "-5" equals "5", composed and decomposed
accents differ, a gold of articles only equals any answer of articles only. `strict` normalises what means the same
(accents, quotes, dashes, dates, number words) and keeps what does not (decimal points, signs, lone articles).

In both, an empty prediction is wrong.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class Scoring(StrEnum):
    """How answers are normalised before they are compared."""

    SQUAD = "squad"
    """The published normaliser, oddities included."""
    STRICT = "strict"
    """Equal meaning is equal, different numbers differ."""


class Scores(NamedTuple):
    """Scores of one prediction.

    Attributes:
        em: Equality with any gold answer after normalisation.
        f1: Overlap of token multisets in [0, 1], the best over the gold answers.
        sub_em: Whether a gold answer is inside the prediction.
    """

    em: bool
    f1: float
    sub_em: bool


WRONG = Scores(False, 0.0, False)
_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ALL_OR_NOTHING = frozenset(("yes", "no", "noanswer"))


def score_answer(prediction: str, golds: Sequence[str], scoring: Scoring = Scoring.SQUAD) -> Scores:
    """Score a prediction; the best over the gold answers counts for each score.

    Args:
        prediction: The answer given.
        golds: Accepted answers.
        scoring: Normaliser.
    """
    if not prediction.strip():
        return WRONG
    tokens: Callable[[str], tuple[str, ...]] = _strict_tokens if scoring is Scoring.STRICT else _squad_tokens
    said = tokens(prediction)
    wanted = [tokens(gold) for gold in golds if gold.strip()]
    if scoring is Scoring.STRICT:
        inside = any(_contains(said, gold) for gold in wanted)
    else:
        text = " ".join(said)
        inside = any(" ".join(gold) in text for gold in wanted)
    return Scores(said in wanted, max((_f1(said, gold) for gold in wanted), default=0.0), inside)


def mentions_answer(text: str, golds: Sequence[str], scoring: Scoring = Scoring.SQUAD) -> bool:
    """Return whether a text holds one of the answers as whole words, after normalisation."""
    tokens = _strict_tokens if scoring is Scoring.STRICT else _squad_tokens
    words = tokens(text)
    return any(_contains(words, tokens(gold)) for gold in golds if gold.strip())


def normalise_squad(text: str) -> str:
    """Return the text as SQuAD's evaluation script compares it."""
    kept = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", kept).split())


def _squad_tokens(text: str) -> tuple[str, ...]:
    return tuple(normalise_squad(text).split())


def _f1(said: tuple[str, ...], gold: tuple[str, ...]) -> float:
    special = _ALL_OR_NOTHING & {" ".join(said), " ".join(gold)}
    if special and said != gold:
        return 0.0
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold)) if common else 0.0


def _contains(tokens: tuple[str, ...], part: tuple[str, ...]) -> bool:
    size = len(part)
    if not size:
        return False
    first = part[0]
    return any(tokens[at] == first and tokens[at : at + size] == part for at in range(len(tokens) - size + 1))


# Strict normalisation -----------------------------------------------------------------------------------------

_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032\u02bc\u0060\u00b4"), "'")
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-")
_ACCENT = re.compile("[\u0300-\u036f]")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
# Abbreviations lose their dots, signs count before a number that nothing precedes, "c++" is not "c".
_TOKEN = re.compile(
    r"(?:[^\W\d_]\.){2,}"
    rf"|(?<![\w.)])[-+]{_DIGITS}"
    rf"|{_DIGITS}"
    r"|[^\W_]+(?:'[^\W_]+)*'?(?:\+\+|#)?"
)
_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBERS = {word: value for value, word in enumerate(_SMALL)} | {w: 20 + 10 * n for n, w in enumerate(_TENS)}
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH = {name: number for number, name in enumerate(_MONTHS, 1)} | {
    name[:3]: number for number, name in enumerate(_MONTHS, 1)
}
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = re.compile(r"\d{4}")


@lru_cache(maxsize=4_096)
def _strict_tokens(text: str) -> tuple[str, ...]:
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES | _DASHES).casefold()
    text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))
    found = _TOKEN.findall(text)
    tokens = [_token(token) for token in found]
    tokens = _join_numbers(_join_dates(tokens))
    kept = [token for token in tokens if token not in _ARTICLES]
    if not kept and not tokens:  # nothing but signs: they are the answer
        tokens = text.split()
    return tuple(kept or tokens)


def _token(token: str) -> str:
    if token[0].isdigit() or token[0] in "+-":
        return token.replace(",", "").removeprefix("+")
    return token.replace(".", "").replace("'", "")


def _join_numbers(tokens: list[str]) -> list[str]:
    """Write number words below a hundred in digits."""
    joined: list[str] = []
    at = 0
    while at < len(tokens):
        value = _NUMBERS.get(tokens[at])
        if value is not None and value >= 20 and at + 1 < len(tokens) and 1 <= _NUMBERS.get(tokens[at + 1], 0) <= 9:
            value += _NUMBERS[tokens[at + 1]]
            at += 1
        joined.append(tokens[at] if value is None else str(value))
        at += 1
    return joined


def _join_dates(tokens: list[str]) -> list[str]:
    """Write "20 june 1837" and "june 20 1837" as one token, 1837-06-20."""
    joined: list[str] = []
    at = 0
    while at < len(tokens):
        date = _date(tokens[at : at + 3])
        joined.append(date or tokens[at])
        at += 3 if date else 1
    return joined


def _date(three: list[str]) -> str:
    if len(three) < 3 or not _YEAR.fullmatch(three[2]):
        return ""
    for day_text, month_text in ((three[0], three[1]), (three[1], three[0])):
        day, month = _DAY.fullmatch(day_text), _MONTH.get(month_text)
        if day and month and 1 <= int(day[1]) <= 31:
            return f"{three[2]}-{month:02}-{int(day[1]):02}"
    return ""

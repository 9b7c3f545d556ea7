"""Accepted answers from whatever a file holds them in: flat, complete, and as people write them.

A truth value is yes or no, since that is what its question asks for. Numbers are written without an exponent and
without a fraction of zero, which only parquet and pandas have put there. What is no answer is refused: a text made
of an object or a date would be wrong whatever a model says.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from agent_gym.support.errors import DataError
from agent_gym.support.rows import plain_key

_YES: Final = ("yes", "true")
_NO: Final = ("no", "false")
_INNER: Final = (
    "value",
    "text",
    "texts",
    "answer",
    "answers",
    "target",
    "aliases",
    "answeraliases",
    "humananswers",
    "normalizedvalue",
    "normalizedaliases",
    "spans",
    "number",
    "date",
    "qapairs",
)
"""Keys of the objects that published files put around answers: TriviaQA, SQuAD, KILT, DROP and IRCoT, AmbigQA."""
_DATE: Final = ("day", "month", "year")
_DEEPEST: Final = 6
_LONGEST_LIST: Final = 1 << 16
_DESCRIBED = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]*))\)')
"""An answer of WebQuestions: `(list (description "Jazmyn Bieber"))`."""


def read_golds(value: Any) -> tuple[str, ...]:
    """Return accepted answers from a text, a number, a truth value, an object of a known form, or lists of these.

    Raises:
        DataError: There is none, or something is no answer; the message says what.
    """
    golds = tuple(dict.fromkeys(gold for gold in _flat(value, 0) if gold.strip()))
    if not golds:
        raise DataError("the question has no answer; questions without one cannot be scored")
    return golds


def chosen(value: Any, choices: Any) -> Any:
    """Return the texts of the choices that answers of a multiple-choice row name by position, letter or label.

    Raises:
        DataError: An answer names no choice.
    """
    labels: Sequence[Any] = ()
    if isinstance(choices, Mapping):
        parts = {plain_key(key): part for key, part in choices.items()}
        labels, choices = parts.get("label", ()), parts.get("text", ())
    texts = [
        choice.get("text", choice.get("value")) if isinstance(choice, Mapping) else choice for choice in choices
    ]
    if not texts:
        return value
    named = value if isinstance(value, list | tuple) else [value]
    return [_choice(one, texts, [str(label) for label in labels]) for one in named]


def _choice(named: Any, texts: Sequence[Any], labels: Sequence[str]) -> Any:
    if named in texts and not isinstance(named, int):
        return named
    place = -1
    if isinstance(named, str) and named.strip() in labels:
        place = labels.index(named.strip())
    elif isinstance(named, str) and len(named.strip()) == 1 and named.strip().isalpha():
        place = ord(named.strip().upper()) - ord("A")
    elif isinstance(named, int) and not isinstance(named, bool):
        place = named
    elif isinstance(named, str) and named.strip().isdecimal() and len(named) < 4:
        place = int(named)
    if not 0 <= place < len(texts):
        raise DataError(f"the answer {named!r:.80} names none of the {len(texts)} choices")
    return texts[place]


def _flat(value: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise DataError(f"expected 'golden_answers' to be a list of texts, got lists nested over {_DEEPEST} times")
    value = value.tolist() if hasattr(value, "tolist") else value
    if value is None:
        return
    if isinstance(value, bool):
        yield from _YES if value else _NO
    elif isinstance(value, int | float | Decimal):
        yield from _number(value)
    elif isinstance(value, str):
        yield from _text(value, depth)
    elif isinstance(value, Mapping):
        yield from _object(value, depth)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for inner in value:
            yield from _flat(inner, depth + 1)
    else:
        raise DataError(
            f"expected 'golden_answers' to be a list of texts, got a {type(value).__name__}; write it as text, in "
            "the form that a model would answer"
        )


def _number(value: int | float | Decimal) -> Iterator[str]:
    if isinstance(value, int):
        if value.bit_length() > 4_096:
            raise DataError("expected 'golden_answers' to be a list of texts, got over a thousand digits")
        yield f"{value:d}"
    elif math.isnan(value):
        return  # a missing value of pandas
    elif math.isinf(value):
        raise DataError("expected 'golden_answers' to be a list of texts, got an infinite number")
    else:
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        shown = f"{exact:f}"
        yield (shown.rstrip("0").rstrip(".") if "." in shown else shown) or "0"


def _text(value: str, depth: int) -> Iterator[str]:
    """Yield a text, or the answers of a list that a text holds as JSON, Python or WebQuestions write it."""
    bare = value.strip()
    if bare.startswith("[") and bare.endswith("]") and len(bare) < _LONGEST_LIST:
        for reader in (json.loads, ast.literal_eval):
            try:
                inner = reader(bare)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(inner, list):
                yield from _flat(inner, depth + 1)
                return
    if bare.startswith("(list (description"):
        yield from ((found[1] or found[2]).replace('\\"', '"') for found in _DESCRIBED.finditer(bare))
        return
    yield value


def _object(value: Mapping[Any, Any], depth: int) -> Iterator[str]:
    parts = {plain_key(key): part for key, part in value.items()}
    spans = parts.get("spans")
    if isinstance(spans, Sequence) and not isinstance(spans, str) and len(spans) > 1:
        raise DataError(
            f"the answer has {len(spans)} parts that are all asked for, which no single text can equal; leave the "
            "question out"
        )
    if all(key in parts for key in _DATE):
        yield " ".join(str(parts[key]) for key in _DATE if parts[key] not in (None, ""))
        return
    named = [key for key in _INNER if parts.get(key) is not None]
    if not named and "provenance" in parts:
        return  # KILT: evidence without an answer beside those with one
    if not named:
        raise DataError(
            f"expected 'golden_answers' to be a list of texts, got an object with the keys "
            f"{[str(key)[:40] for key in value][:8]}"
        )
    for key in named:
        yield from _flat(parts[key], depth + 1)

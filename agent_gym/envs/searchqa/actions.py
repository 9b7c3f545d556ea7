"""The two actions, in the environment's own form: `search[query]` and `answer[text]`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class ActionKind(StrEnum):
    """What an action does."""

    SEARCH = "search"
    ANSWER = "answer"


class SearchAction(NamedTuple):
    """A parsed action.

    Attributes:
        kind: Search or answer.
        text: The query or the answer, without blanks around it.
    """

    kind: ActionKind
    text: str


TEMPLATES = ("search[{query}]", "answer[{text}]")
MALFORMED = (
    "That is no action. To look something up, write a query between <search> and </search>; to finish, write the "
    "answer between <answer> and </answer>."
)
_FORM = re.compile(r"\s*(search|answer)\[(.*)\]\s*", re.DOTALL)
_HAS_WORD = re.compile(r"[^\W_]")


def parse_action(action: str) -> SearchAction | str:
    """Parse an action.

    Returns:
        The action, or a sentence that says what is wrong with it.
    """
    match = _FORM.fullmatch(action)
    if match is None:
        return MALFORMED
    kind, text = ActionKind(match[1]), match[2].strip()
    if not text:
        return f"The {kind} is empty; write something between <{kind}> and </{kind}>."
    if kind is ActionKind.SEARCH and not _HAS_WORD.search(text):
        return "The query holds no word to look up; write words between <search> and </search>."
    return SearchAction(kind, text)


def search_action(query: str) -> str:
    """Return the action that searches for `query`."""
    return f"search[{query}]"


def answer_action(text: str) -> str:
    """Return the action that answers `text`."""
    return f"answer[{text}]"

"""Retrieved passages as the agent sees them: escaped, one a line, within a length limit.

Passages come from anywhere, so nothing in them may look like a part of the protocol: tags and chat markers are
escaped, each passage is one line (a line "Doc 2: ..." inside a passage cannot pose as another passage), control
characters and those that turn the reading direction are gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from agent_gym.retrieval.base import Passage

OPENING, CLOSING = "<information>", "</information>"
NOTHING_FOUND = "No passage matches the query."
CUT = " [...]"
LEAST_LIMIT = 200
"""Shortest length limit that still shows something."""

# "<" before what can start a tag or a chat marker; a lone "<" between blanks or digits stays readable.
_TAG = re.compile(r"<(?=[/|!\[A-Za-z_])")
_ESCAPED = "&lt;"
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT = 2_000


class PassageStyle(StrEnum):
    """How a passage is headed."""

    SEARCH_R1 = "search-r1"
    """`Doc 1(Title: Rome) text`."""
    VERL_AGENT = "verl-agent"
    """`Doc 1: "Rome" text`."""
    PLAIN = "plain"
    """`text`."""


def escape(text: str) -> str:
    """Return text that cannot act as markup and is one line."""
    return _remembered(text) if len(text) <= _SHORT else _escape(text)


@lru_cache(maxsize=4_096)
def _remembered(text: str) -> str:
    """Escape a question or a passage of usual length; episodes of a group meet the same ones."""
    return _escape(text)


def _escape(text: str) -> str:
    text = _UNSEEN.sub("", _SURROGATE.sub("\ufffd", text))
    return _TAG.sub(_ESCAPED, " ".join(text.split()))


def begin(text: str, most: int) -> str:
    """Return the first `most` characters of escaped text; fewer where they would end inside an escape."""
    kept = text[:most]
    last = kept.rfind("&", -len(_ESCAPED) + 1)
    return kept[:last] if last >= 0 and text.startswith(_ESCAPED, last) else kept


def show_passages(passages: Sequence[Passage], style: PassageStyle, limit: int) -> tuple[str, int]:
    """Return the passages between information tags, at most `limit` characters long, and how many are shown.

    Passages that do not fit are left out as a whole, from the last; a first one that does not fit is cut at a
    blank and marked with `[...]`. The closing tag is always there.

    Args:
        passages: Passages, best first.
        style: Heading of a passage.
        limit: Most characters, tags included; at least `LEAST_LIMIT`.
    """
    room = limit - len(OPENING) - len(CLOSING) - 2
    lines: list[str] = []
    for number, passage in enumerate(passages, 1):
        # What is far beyond the limit need not be escaped to be cut.
        line = _line(number, passage, style, room)
        if len(line) + 1 > room:
            if lines:
                break
            line = _cut(line, room - 1)
        lines.append(line)
        room -= len(line) + 1
    return "\n".join((OPENING, *(lines or [NOTHING_FOUND]), CLOSING)), len(lines)


def _line(number: int, passage: Passage, style: PassageStyle, room: int) -> str:
    most = 2 * room + 1_000
    title, text = escape(passage.title[:most]), escape(passage.text[:most])
    if style is PassageStyle.PLAIN:
        return text
    if style is PassageStyle.VERL_AGENT:
        return f'Doc {number}: "{title}" {text}' if title else f"Doc {number}: {text}"
    return f"Doc {number}(Title: {title}) {text}"


def _cut(line: str, room: int) -> str:
    kept = begin(line, max(0, room - len(CUT)))
    head, blank, _ = kept.rpartition(" ")
    return (head if blank and len(head) > len(kept) // 2 else kept) + CUT

"""From a model's reply to an action.

The grammar of a reply is one optional thought, `<think>...</think>`, then one action,
`<action>...</action>`. Search environments use other action tags, which map to their own action forms.
Thoughts are removed before anything else, so that a tag inside a thought can never act.

Two modes:

- strict: the whole reply is one optional thought and exactly one complete action tag, nothing else.
- lenient: the last complete action tag after the thoughts counts, whatever stands around it; end-of-turn
  markers, quotes and full stops around the action are dropped, and the environment maps known spellings of
  other versions to its exact grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

# <|im_end|>, <|eot_id|>, </s>, <end_of_turn>, <eos>: markers that a server may leave in the text.
_TURN_MARKER = re.compile(r"(?:<\|[A-Za-z0-9_ ]{1,40}\|>|</s>|<end_of_turn>|<eos>|<pad>)")
_LONGEST_MARKER = 44
_SHOWN = 60


class ReplyMode(StrEnum):
    """How much a reply may deviate from the grammar."""

    STRICT = "strict"
    LENIENT = "lenient"


class ThoughtRule(StrEnum):
    """Whether a reply has a thought."""

    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True)
class ReplyGrammar:
    """Tags of a reply.

    Attributes:
        tags: Action tag -> action form with one `{}`, for example `{"search": "search[{}]"}`.
        thought_tag: Tag of the thought.
        thought: Whether the thought is optional or required.
    """

    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"action": "{}"}))
    thought_tag: str = "think"
    thought: ThoughtRule = ThoughtRule.OPTIONAL

    def __post_init__(self) -> None:
        if not self.tags:
            raise ValueError("a reply grammar needs at least one action tag")
        object.__setattr__(self, "tags", MappingProxyType(dict(self.tags)))

    def __reduce__(self) -> tuple[object, ...]:  # mapping proxies do not pickle
        return (ReplyGrammar, (dict(self.tags), self.thought_tag, self.thought))

    def wrap(self, action: str, thought: str | None = None) -> str:
        """Return a well-formed reply that holds `action` (an action in the environment's own form)."""
        for tag, form in self.tags.items():
            head, _, tail = form.partition("{}")
            if action.startswith(head) and action.endswith(tail) and len(action) >= len(head) + len(tail):
                body = action[len(head) : len(action) - len(tail)]
                return f"{self._thought(thought)}<{tag}>{body}</{tag}>"
        raise ValueError(f"action {action!r} has none of the forms {list(self.tags.values())}")

    def _thought(self, thought: str | None) -> str:
        if thought is None:
            if self.thought is not ThoughtRule.REQUIRED:
                return ""
            thought = ""
        return f"<{self.thought_tag}>{thought}</{self.thought_tag}>"


class ParsedReply(NamedTuple):
    """A parsed reply.

    Attributes:
        thought: Text of the thoughts, joined by line breaks.
        action: The action in the environment's form, or None when the reply holds none.
        valid_format: Whether the reply follows the grammar in the mode used.
        reason: One sentence that says what is wrong and what is expected; "" when the format is valid.
    """

    thought: str
    action: str | None
    valid_format: bool
    reason: str


class RejectedReply(str):
    """Stands in for the action of a reply that held none; the environment counts the turn.

    The string is the reply's text; `reason` is the sentence shown to the agent. It is a `str`, so it passes
    through any wrapper and any vector environment.
    """

    reason: str

    def __new__(cls, text: str, reason: str) -> RejectedReply:
        """Create the stand-in from the reply's text and the reason."""
        made = super().__new__(cls, text)
        made.reason = reason
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return (str(self), self.reason)


def parse_reply(
    text: str,
    grammar: ReplyGrammar | None = None,
    mode: ReplyMode = ReplyMode.LENIENT,
    canonical: Callable[[str], str] | None = None,
) -> ParsedReply:
    """Parse a model's reply; linear in its length, never raises.

    Args:
        text: The model's own reply, without the prompt (a prompt's example must not count).
        grammar: Tags to look for; thought and action by default.
        mode: Strict or lenient.
        canonical: Maps lenient spellings to the environment's grammar; used in lenient mode only.
    """
    grammar = grammar or ReplyGrammar()
    body = _strip_markers(text)
    thoughts, outside, problem = _split_thoughts(body, grammar.thought_tag)
    rest = "".join(outside)
    thought = "\n".join(part.strip() for part in thoughts)
    if problem:
        return ParsedReply(thought, None, False, problem)
    strict = mode is ReplyMode.STRICT
    found = _complete_tags(rest, tuple(grammar.tags))
    expected = " or ".join(f"<{tag}>...</{tag}>" for tag in grammar.tags)
    if not found:
        return ParsedReply(thought, None, False, _nothing_found(rest, grammar, expected))
    if grammar.thought is ThoughtRule.REQUIRED and not thoughts:
        tag = grammar.thought_tag
        problem = f"The reply has no thought; start with <{tag}>...</{tag}>."
    elif strict:
        problem = _strict_problem(outside, found, thoughts, grammar, expected)
    tag, content, _, _ = found[-1]
    content = content.strip()
    if not strict:
        content = _strip_decoration(content, sentence=grammar.tags[tag] == "{}")
    action: str | None = grammar.tags[tag].format(content) if content else None
    if not content:
        problem = f"The <{tag}> tag is empty; put one action between <{tag}> and </{tag}>."
    elif canonical is not None and not strict and action is not None:
        action = canonical(action)
    if problem:
        return ParsedReply(thought, None if strict or not content else action, False, problem)
    return ParsedReply(thought, action, True, "")


def _strip_markers(text: str) -> str:
    """Remove end-of-turn markers that stand at the end of the text."""
    text = text.strip()
    end = len(text)
    while True:
        tail = text[max(0, end - _LONGEST_MARKER) : end]
        last = next(reversed(list(_TURN_MARKER.finditer(tail))), None)
        if last is None or last.end() != len(tail):
            return text[:end]
        end -= last.end() - last.start()
        while end and text[end - 1].isspace():
            end -= 1


def _split_thoughts(text: str, tag: str) -> tuple[list[str], list[str], str]:
    """Return the thoughts, the texts before, between and after them, and a problem ("" when none)."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    thoughts: list[str] = []
    rest: list[str] = []
    first_close, first_open = text.find(closing), text.find(opening)
    position = 0
    if first_close >= 0 and (first_open < 0 or first_close < first_open):
        # The chat template opened the thought, so the reply starts inside it.
        thoughts.append(text[:first_close])
        rest.append("")
        position = first_close + len(closing)
    while True:
        start = text.find(opening, position)
        if start < 0:
            rest.append(text[position:])
            return thoughts, rest, ""
        end = text.find(closing, start)
        if end < 0:
            thoughts.append(text[start + len(opening) :])
            problem = f"The {opening} block is never closed; close it with {closing} before the action."
            return thoughts, [*rest, text[position:start]], problem
        rest.append(text[position:start])
        thoughts.append(text[start + len(opening) : end].replace(opening, ""))
        position = end + len(closing)


def _complete_tags(text: str, tags: tuple[str, ...]) -> list[tuple[str, str, int, int]]:
    """Return (tag, content, start, end) of each complete tag; of nested openings the innermost counts."""
    pattern = re.compile("<(/?)(" + "|".join(re.escape(tag) for tag in tags) + ")>")
    found = []
    open_tag, content_start, tag_start = "", 0, 0
    for match in pattern.finditer(text):
        if not match[1]:
            open_tag, content_start, tag_start = match[2], match.end(), match.start()
        elif match[2] == open_tag:
            found.append((open_tag, text[content_start : match.start()], tag_start, match.end()))
            open_tag = ""
    return found


def _nothing_found(rest: str, grammar: ReplyGrammar, expected: str) -> str:
    for tag in grammar.tags:
        opened, closed = rest.find(f"<{tag}>"), rest.find(f"</{tag}>")
        if opened >= 0 and closed < 0:
            return f"The <{tag}> tag is never closed; end the action with </{tag}>."
        if closed >= 0 and (opened < 0 or closed < opened):
            return f"The tags are in the wrong order: </{tag}> comes before <{tag}>; write {expected}."
    return f"The reply holds no action; write it as {expected}."


def _strict_problem(
    pieces: list[str],
    found: list[tuple[str, str, int, int]],
    thoughts: list[str],
    grammar: ReplyGrammar,
    expected: str,
) -> str:
    if len(found) > 1:
        return f"The reply holds {len(found)} actions; exactly one {expected} is expected."
    if len(thoughts) > 1:
        return f"The reply holds {len(thoughts)} thoughts; at most one is expected, before the action."
    rest = "".join(pieces)
    _, _, start, end = found[0]
    if thoughts and start < len(pieces[0]):
        return f"The thought comes after the action; write the thought first, then {expected}."
    outside = (rest[:start] + rest[end:]).strip()
    if outside:
        shown = outside if len(outside) <= _SHOWN else outside[: _SHOWN - 3] + "..."
        return f"There is text outside the tags ({shown!r}); only {expected} may follow the thought."
    return ""


def _strip_decoration(action: str, *, sentence: bool) -> str:
    """Drop what models put around an action: markers, quotes, backticks, and one full stop.

    Args:
        action: Content of the action tag.
        sentence: Whether a full stop at the end is decoration; it belongs to a query or an answer ("U.S.").
    """
    action = _strip_full_stop(_strip_markers(action), sentence)
    for quote in ("`", '"', "'"):
        if len(action) > 2 * len(quote) and action.startswith(quote) and action.endswith(quote):
            action = _strip_full_stop(action[1:-1].strip(), sentence)
    return action


def _strip_full_stop(action: str, sentence: bool) -> str:
    if sentence and len(action) > 1 and action.endswith(".") and not action.endswith(".."):
        return action[:-1].rstrip()
    return action

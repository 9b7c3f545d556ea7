"""How a chat model says its action: in tags within its text, or by calling a tool.

Either way a turn is recorded as text in the environment's reply grammar, so that episodes of both compare and
replay alike.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from agent_gym.core.prompts import Prompt, Segment
from agent_gym.core.replies import ReplyGrammar

ChatMessage = dict[str, Any]
"""A message of a conversation: `role`, `content`, and what tool calls need beside them."""
_ARGUMENT = "text"
_REASONING = ("reasoning_content", "reasoning")  # where servers put thoughts that they have cut out of the text


class ReplyFormat(StrEnum):
    """How a model says its action."""

    TAGS = "tags"
    """In tags within its text, as the environment's prompt asks."""
    TOOLS = "tools"
    """By calling a tool; the service must support them."""


class ChatFormat(ABC):
    """One way to ask for an action and to read it.

    Args:
        grammar: Reply grammar of the environment.
    """

    def __init__(self, grammar: ReplyGrammar) -> None:
        self.grammar = grammar

    def request(self) -> dict[str, Any]:
        """Return fields that every request has beside messages and sampling."""
        return {}

    @abstractmethod
    def prompt(self, prompt: Prompt) -> str:
        """Return the text of a prompt."""

    @abstractmethod
    def read(self, message: Mapping[str, Any]) -> str:
        """Return a message as text in the reply grammar; never raises."""

    @abstractmethod
    def turn(self, message: Mapping[str, Any], then: str) -> list[ChatMessage]:
        """Return what a full conversation holds of a turn: the reply, and what the environment then shows."""

    def _thought(self, text: str) -> str:
        return f"<{self.grammar.thought_tag}>{text}</{self.grammar.thought_tag}>" if text.strip() else ""


class TagFormat(ChatFormat):
    """The action stands in tags."""

    def prompt(self, prompt: Prompt) -> str:
        """Return the text of a prompt."""
        return prompt.text()

    def read(self, message: Mapping[str, Any]) -> str:
        """Return the text, with thoughts that the service has cut out put before it again."""
        return self._thought(_reasoning(message)) + (message.get("content") or "")

    def turn(self, message: Mapping[str, Any], then: str) -> list[ChatMessage]:
        """Return reply and observation as messages of assistant and user."""
        return [
            {"role": "assistant", "content": message.get("content") or ""},
            {"role": "user", "content": then},
        ]


class ToolFormat(ChatFormat):
    """Each action tag of the grammar is a tool with one text argument.

    Text beside a call is the thought. A reply without a call is read as text, and several calls in one reply as
    several actions, which the parser then judges.

    Args:
        grammar: Reply grammar of the environment.
        choice: `tool_choice` of the requests: `required`, or `auto` where a service does not know that.
    """

    def __init__(self, grammar: ReplyGrammar, choice: str = "required") -> None:
        super().__init__(grammar)
        self._choice = choice

    def request(self) -> dict[str, Any]:
        """Return the tools."""
        return {
            "tools": [self._tool(tag, form) for tag, form in self.grammar.tags.items()],
            "tool_choice": self._choice,
        }

    def prompt(self, prompt: Prompt) -> str:
        """Return the prompt without its words on tags, which would contradict the tools."""
        names = " or ".join(f"`{tag}`" for tag in self.grammar.tags)
        ask = f"Call the tool {names} once."
        return prompt.separator.join(part for part in (prompt.masked({Segment.FORMAT}).text(), ask) if part)

    def read(self, message: Mapping[str, Any]) -> str:
        """Return calls as tags."""
        calls = [self._call(call) for call in message.get("tool_calls") or ()]
        content = message.get("content") or ""
        if not calls:
            return self._thought(_reasoning(message)) + content
        return self._thought("\n".join(part for part in (_reasoning(message), content) if part)) + "".join(calls)

    def turn(self, message: Mapping[str, Any], then: str) -> list[ChatMessage]:
        """Return the calls and their results; the first result holds what the environment shows."""
        calls = [call for call in message.get("tool_calls") or () if isinstance(call, Mapping) and call.get("id")]
        reply: ChatMessage = {"role": "assistant", "content": message.get("content") or ""}
        if not calls:
            return [reply, {"role": "user", "content": then}]
        reply["tool_calls"] = calls
        results = [{"role": "tool", "tool_call_id": call["id"], "content": ""} for call in calls]
        results[0]["content"] = then
        return [reply, *results]

    def _tool(self, tag: str, form: str) -> dict[str, Any]:
        if form == "{}":
            what = "Act. The text is one action, written exactly as the environment lists it."
        else:
            what = f"Act: {form.format('text')}."
        parameters = {
            "type": "object",
            "properties": {_ARGUMENT: {"type": "string"}},
            "required": [_ARGUMENT],
            "additionalProperties": False,
        }
        return {"type": "function", "function": {"name": tag, "description": what, "parameters": parameters}}

    def _call(self, call: Any) -> str:
        """Return a call as a tag; one that cannot be read becomes text that holds no action."""
        try:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            values = json.loads(arguments) if isinstance(arguments, str) else arguments
            text = values[_ARGUMENT]
        except (ValueError, LookupError, TypeError, RecursionError):
            return f"(a tool call that cannot be read: {call!r:.200})"
        if name not in self.grammar.tags or not isinstance(text, str):
            return f"(a call of no known tool: {call!r:.200})"
        return f"<{name}>{text}</{name}>"


def make_format(kind: ReplyFormat, grammar: ReplyGrammar, choice: str) -> ChatFormat:
    """Return the format of a name."""
    return TagFormat(grammar) if kind is ReplyFormat.TAGS else ToolFormat(grammar, choice)


def _reasoning(message: Mapping[str, Any]) -> str:
    for name in _REASONING:
        text = message.get(name)
        if isinstance(text, str) and text.strip():
            return text
    return ""

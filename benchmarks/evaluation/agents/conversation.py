"""What a chat model is shown at each turn of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_gym.core.prompts import NO_ACTION, ContextMode, Exchange, PromptBuilder
from agent_gym.core.replies import ParsedReply
from agent_gym.play.driver import LiveEpisode
from benchmarks.evaluation.agents.formats import ChatFormat, ChatMessage

_MEMORY = "chat"


@dataclass(slots=True)
class _Chat:
    """What one episode has said."""

    history: list[Exchange] = field(default_factory=list)
    messages: list[ChatMessage] = field(default_factory=list)


@dataclass(frozen=True)
class Conversation:
    """Builds the messages of running episodes, and keeps what was said in their memory.

    Attributes:
        builder: Builds the prompts.
        context: A fresh prompt each turn, or one growing conversation.
        form: How actions are asked for and read.
    """

    builder: PromptBuilder
    context: ContextMode
    form: ChatFormat

    def messages(self, episode: LiveEpisode) -> list[ChatMessage]:
        """Return the messages to answer."""
        chat: _Chat = episode.memory.setdefault(_MEMORY, _Chat())
        if self.context is ContextMode.FULL:
            if not chat.messages:
                chat.messages = [{"role": "user", "content": self.form.prompt(self.builder.prompt(episode.info))}]
            return chat.messages
        prompt = self.builder.prompt(episode.info, chat.history)
        return [{"role": "user", "content": self.form.prompt(prompt)}]

    def add(
        self, episode: LiveEpisode, parsed: ParsedReply, before: Mapping[str, Any], message: Mapping[str, Any]
    ) -> None:
        """Add a turn.

        Args:
            episode: The episode, after the turn.
            parsed: What the reply was understood as.
            before: Info that the model had seen.
            message: The reply.
        """
        chat: _Chat = episode.memory[_MEMORY]
        action = NO_ACTION if parsed.action is None else parsed.action
        chat.history.append(Exchange(before["prompt_observation"], action))
        if self.context is ContextMode.FULL:
            then = self.builder.follow_up(episode.info)["content"]
            chat.messages = [*chat.messages, *self.form.turn(message, then)]

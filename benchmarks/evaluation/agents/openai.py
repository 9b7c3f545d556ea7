"""`openai:MODEL@URL`: a model behind an OpenAI-compatible address, played with the environment's own prompts."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agent_gym.core.info import StopReason
from agent_gym.core.replies import ParsedReply
from agent_gym.play.driver import EnvHandle, LiveEpisode
from agent_gym.play.reply import Reply
from agent_gym.play.runner import EnvRunner
from agent_gym.support.errors import ConfigError
from agent_gym.support.seeding import derive_seed
from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.conversation import Conversation
from benchmarks.evaluation.agents.endpoint import (
    ChatEndpoint,
    Completion,
    ContextLengthError,
    EndpointError,
    RetrySettings,
)
from benchmarks.evaluation.agents.estimate import Rehearsal
from benchmarks.evaluation.agents.formats import ReplyFormat, make_format
from benchmarks.evaluation.agents.ledger import Ledger, Prices
from benchmarks.evaluation.agents.play_options import PlayOptions, read_options
from benchmarks.evaluation.agents.threads import DaemonPool

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
_ARGUMENT = re.compile(r"(?P<model>.+?)(?:@(?P<url>https?://.+))?")
_PENDING = "pending reply"
_MESSAGE = "last message"
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class EndpointOptions(PlayOptions):
    """Options of `openai:` agents."""

    format: ReplyFormat = ReplyFormat.TAGS
    """`tags`: the action stands in the text. `tools`: the model calls a tool."""
    tool_choice: str = "required"
    """What requests say about tools: `required` or `auto`."""
    limit_field: str = "max_tokens"
    """Field that holds the longest reply: `max_tokens`, or `max_completion_tokens` where a service wants that."""
    max_context_tokens: int = 0
    """Longest prompt and reply together, 0 where unknown: a reply that the service cuts there is no error."""
    timeout: float = 120.0
    """Seconds that a request may take until its answer is whole."""
    tries: int = 5
    """Requests for one reply before the episode counts as an error."""
    pause: float = 1.0
    """Seconds before the second try; each further pause is twice as long."""
    prompt_price: float = 0.0
    """Price of a million tokens read."""
    reply_price: float = 0.0
    """Price of a million tokens written."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tool_choice not in ("required", "auto"):
            raise ConfigError(f"tool_choice is required or auto, got {self.tool_choice!r}")
        if self.max_context_tokens < 0:
            raise ConfigError(f"max_context_tokens is at least 0 (unknown), got {self.max_context_tokens}")
        if self.limit_field not in _LIMIT_FIELDS:
            raise ConfigError(f"limit_field is {' or '.join(_LIMIT_FIELDS)}, got {self.limit_field!r}")

    def identity(self) -> dict[str, Any]:
        """Return what bears on the replies: patience and prices may change when an evaluation goes on."""
        unsaid = {"limit_field", "timeout", "tries", "pause", "prompt_price", "reply_price"}
        if not self.max_context_tokens:
            unsaid.add("max_context_tokens")
        return {name: value for name, value in super().identity().items() if name not in unsaid}

    def sampling(self) -> dict[str, Any]:
        """Return the request's sampling fields; those that are off are left out, as some services refuse them."""
        fields: dict[str, Any] = {
            self.limit_field: self.max_reply_tokens,
            "temperature": 0.0 if self.greedy else self.temperature,
        }
        if self.top_p < 1.0 and not self.greedy:
            fields["top_p"] = self.top_p
        if self.top_k and not self.greedy:
            fields["top_k"] = self.top_k
        return fields


class EndpointAgent:
    """Answers running episodes by asking the endpoint, all at once; each goes on when its own reply is there.

    An episode whose reply the service fails to give ends as a tool error: it is no failure of the model.

    Args:
        endpoint: Who is asked.
        conversation: What is said.
        fields: Fields of every request beside messages and seed.
        parallel: Most requests at once.
    """

    def __init__(
        self, endpoint: ChatEndpoint, conversation: Conversation, fields: dict[str, Any], parallel: int
    ) -> None:
        self._endpoint, self._conversation, self._fields = endpoint, conversation, fields
        self._pool = DaemonPool(parallel, "endpoint")

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply | None]:
        """Return the replies that are there, at least one.

        Raises:
            ConfigError: The service refuses the key, the model or the address.
        """
        pending = [self._asked(episode) for episode in episodes]
        wait(pending, return_when=FIRST_COMPLETED)
        return [
            self._reply(episode, future) if future.done() else None
            for episode, future in zip(episodes, pending, strict=True)
        ]

    def _asked(self, episode: LiveEpisode) -> Future[Completion]:
        future: Future[Completion] | None = episode.memory.get(_PENDING)
        if future is None:
            info = episode.info
            seed = derive_seed("draws", episode.request.seed, info["task_id"], info["turn"]) % 2**31
            messages = self._conversation.messages(episode)
            future = self._pool.submit(self._endpoint.complete, messages, self._fields, seed)
            episode.memory[_PENDING] = future
        return future

    def _reply(self, episode: LiveEpisode, future: Future[Completion]) -> Reply:
        del episode.memory[_PENDING]
        try:
            done = future.result()
        except ContextLengthError as error:
            self._warn(episode, error)
            return Reply("", stop=StopReason.CONTEXT_OVERFLOW)
        except EndpointError as error:
            self._warn(episode, error)
            return Reply("", stop=StopReason.TOOL_ERROR, error=str(error))
        episode.memory[_MESSAGE] = done.message
        return Reply(
            self._conversation.form.read(done.message),
            done.finish_reason,
            prompt_tokens=None if done.usage is None else done.usage.prompt_tokens,
            reply_tokens=None if done.usage is None else done.usage.reply_tokens,
            seconds=done.seconds,
        )

    def _warn(self, episode: LiveEpisode, error: Exception) -> None:
        _LOG.warning("task %s, turn %d: %s", episode.info["task_id"], episode.info["turn"], error)

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Add the turn to the episode's conversation."""
        self._conversation.add(episode, parsed, before, episode.memory[_MESSAGE])

    def close(self) -> None:
        """Ask nothing more."""
        self._pool.close()
        self._endpoint.close()


class OpenAIKind(AgentKind):
    """`openai:MODEL@URL` asks a model behind an OpenAI-compatible address; the key is read from the variable
    OPENAI_API_KEY, the address from OPENAI_BASE_URL when none is given."""

    name = "openai"
    usage = "openai:MODEL@URL"
    summary = "a model behind an OpenAI-compatible address"

    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Make the agent; nothing is asked yet."""
        options = read_options(EndpointOptions, settings.options, self.name)
        model, url = _parse(argument)
        retries = RetrySettings(timeout=options.timeout, tries=options.tries, pause=options.pause)
        ledger = Ledger(Prices(options.prompt_price, options.reply_price))
        endpoint = ChatEndpoint(
            url,
            model,
            os.environ.get(KEY),
            retries,
            connections=settings.parallel,
            context=options.max_context_tokens,
            ledger=ledger,
        )
        form = make_format(options.format, handle.env.reply_grammar, options.tool_choice)
        conversation = Conversation(options.builder(handle), options.context, form)
        player = EndpointAgent(endpoint, conversation, {**options.sampling(), **form.request()}, settings.parallel)
        return Contestant(
            f"{self.name}:{argument}",
            player,
            {"model": model, "url": url, **options.identity()},
            options.reply_mode,
            ledger=ledger,
            rehearsal=Rehearsal(conversation, options.max_reply_tokens, ledger.prices),
            close=player.close,
        )


def _parse(argument: str) -> tuple[str, str]:
    """Return model and address; a model's name may hold an @."""
    match = _ARGUMENT.fullmatch(argument)
    if match is None or argument.startswith("@"):
        raise ConfigError(f"agent 'openai:{argument}' needs a model: {OpenAIKind.usage}")
    url = match["url"] or os.environ.get(BASE_URL)
    if not url and "@" in argument:
        model, _, address = argument.rpartition("@")
        raise ConfigError(
            f"agent 'openai:{argument}': an address begins with http:// or https://, as in openai:{model}@http://"
            f"{address}; where the @ is part of the model's name, add @URL or set {BASE_URL}"
        )
    if not url:
        raise ConfigError(f"agent 'openai:{argument}' names no address: write {OpenAIKind.usage} or set {BASE_URL}")
    if urlsplit(url).username is not None:
        raise ConfigError(
            f"the address of an endpoint holds no name or password, which results would show; set {KEY}"
        )
    return match["model"], url

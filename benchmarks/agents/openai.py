"""`openai:MODEL@URL`: a model behind an OpenAI-compatible address, played with the environment's own prompts."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agent_gym.core.batch import EnvRunner
from agent_gym.core.driver import EnvFace, LiveEpisode, Reply
from agent_gym.core.errors import ConfigError
from agent_gym.core.info import StopReason
from agent_gym.core.prompts import ContextMode, Exchange, Message, PromptBuilder
from agent_gym.core.replies import ParsedReply
from agent_gym.core.seeding import derive_seed
from benchmarks.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.agents.endpoint import ChatEndpoint, Completion, ContextLengthError, EndpointError, RetrySettings
from benchmarks.agents.play_options import PlayOptions, read_options

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
_ARGUMENT = re.compile(r"(?P<model>.+?)(?:@(?P<url>https?://.+))?")
_MEMORY = "chat"
_NO_ACTION = "(no valid action)"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class EndpointOptions(PlayOptions):
    """Options of `openai:` agents."""

    timeout: float = 120.0
    """Seconds without a byte from the service after which a request has failed."""
    tries: int = 5
    """Requests for one reply before the episode counts as an error."""
    pause: float = 1.0
    """Seconds before the second try; each further pause is twice as long."""


@dataclass(slots=True)
class _Chat:
    """What one episode has said."""

    history: list[Exchange]
    messages: list[Message]


class EndpointAgent:
    """Answers running episodes by asking the endpoint, all at once.

    An episode whose reply the service fails to give ends as a tool error: it is no failure of the model.

    Args:
        endpoint: Who is asked.
        builder: Builds the prompts.
        options: Context and sampling.
        parallel: Most requests at once.
    """

    def __init__(self, endpoint: ChatEndpoint, builder: PromptBuilder, options: PlayOptions, parallel: int) -> None:
        self._endpoint, self._builder, self._options = endpoint, builder, options
        self._pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="endpoint")
        self._sampling = _sampling(options)
        self.n_errors = 0

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return one reply an episode.

        Raises:
            ConfigError: The service refuses the key, the model or the address.
        """
        waiting = [self._pool.submit(self._ask, episode) for episode in episodes]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def _ask(self, episode: LiveEpisode) -> Reply:
        info = episode.info
        seed = derive_seed("draws", episode.request.seed, info["task_id"], info["turn"]) % 2**31
        try:
            done: Completion = self._endpoint.complete(self._messages(episode), self._sampling, seed)
        except ContextLengthError as error:
            _LOG.warning("task %s, turn %d: %s", info["task_id"], info["turn"], error)
            return Reply("", stop=StopReason.CONTEXT_OVERFLOW)
        except EndpointError as error:
            self.n_errors += 1
            _LOG.warning("task %s, turn %d: %s", info["task_id"], info["turn"], error)
            return Reply("", stop=StopReason.TOOL_ERROR)
        return Reply(done.text, done.finish_reason)

    def _messages(self, episode: LiveEpisode) -> list[Message]:
        chat: _Chat = episode.memory.setdefault(_MEMORY, _Chat([], []))
        if self._options.context is ContextMode.FULL:
            if not chat.messages:
                chat.messages = self._builder.opening(episode.info)
            return chat.messages
        return self._builder.prompt(episode.info, chat.history).messages()

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Add the turn to the episode's conversation."""
        chat: _Chat = episode.memory[_MEMORY]
        action = _NO_ACTION if parsed.action is None else parsed.action
        chat.history.append(Exchange(before["prompt_observation"], action))
        if self._options.context is ContextMode.FULL:
            answer = {"role": "assistant", "content": reply.text}
            chat.messages = [*chat.messages, answer, self._builder.follow_up(episode.info)]


def _sampling(options: PlayOptions) -> dict[str, Any]:
    """Return the request's sampling fields; those that are off are left out, as not every service knows them."""
    fields: dict[str, Any] = {
        "max_tokens": options.max_reply_tokens,
        "temperature": 0.0 if options.greedy else options.temperature,
    }
    if options.top_p < 1.0 and not options.greedy:
        fields["top_p"] = options.top_p
    if options.top_k and not options.greedy:
        fields["top_k"] = options.top_k
    return fields


class OpenAIKind(AgentKind):
    """`openai:MODEL@URL` asks a model behind an OpenAI-compatible address; the key is read from the variable
    OPENAI_API_KEY, the address from OPENAI_BASE_URL when none is given."""

    name = "openai"
    usage = "openai:MODEL@URL"
    summary = "a model behind an OpenAI-compatible address"

    def make(self, argument: str, face: EnvFace, settings: AgentSettings) -> Contestant:
        """Make the agent; nothing is asked yet."""
        options = read_options(EndpointOptions, settings.options, self.name)
        model, url = _parse(argument)
        retries = RetrySettings(timeout=options.timeout, tries=options.tries, pause=options.pause)
        endpoint = ChatEndpoint(url, model, os.environ.get(KEY), retries, connections=settings.parallel)
        player = EndpointAgent(endpoint, options.builder(face), options, settings.parallel)
        identity = {"model": model, "url": url, **options.identity()}
        return Contestant(f"{self.name}:{argument}", player, identity, options.reply_mode)


def _parse(argument: str) -> tuple[str, str]:
    """Return model and address; a model's name may hold an @."""
    match = _ARGUMENT.fullmatch(argument)
    if match is None:
        raise ConfigError(f"agent 'openai' needs a model: {OpenAIKind.usage}")
    url = match["url"] or os.environ.get(BASE_URL)
    if not url:
        raise ConfigError(f"agent 'openai:{argument}' names no address: write {OpenAIKind.usage} or set {BASE_URL}")
    return match["model"], url

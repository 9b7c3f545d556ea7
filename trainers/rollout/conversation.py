"""From what an environment shows to the token ids that a policy reads, without ever re-encoding a reply.

In window context each turn has a fresh prompt. In full context the ids of the episode so far are kept as they
are and only glue is appended: what the chat template puts between a reply and the next one (end of turn, the
user's message, the opening of the reply). Glue is encoded on its own, with mask 0 in training; sampled ids stay
exactly what was sampled (decoding and encoding them again can give other ids).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from agent_gym.core.prompts import NO_ACTION, ContextMode, Exchange, Message, PromptBuilder
from agent_gym.support.errors import ConfigError
from trainers.policy.policy import Policy
from trainers.rollout.masked_prompts import PromptSources
from trainers.settings.run import TrainConfig

_STUB = "\N{SNOWMAN}reply\N{SNOWMAN}"
_CACHED_TOKENS = 2_000_000  # about 100 MB of Python integers


class PromptEncoder:
    """Encodes prompts for one policy, remembering recent ones (a group starts with equal prompts).

    Args:
        policy: Policy whose tokenizer and chat template are used.
        builder: Builds the prompts.
        context: Window or full.
        max_prompt_tokens: Most tokens that leave room for a reply.
        sources: Where to remember what window prompts are rendered from; None when nobody asks for it.
    """

    def __init__(
        self,
        policy: Policy,
        builder: PromptBuilder,
        context: ContextMode,
        max_prompt_tokens: int,
        sources: PromptSources | None = None,
    ) -> None:
        self.policy = policy
        self.builder = builder
        self.context = context
        self.max_prompt_tokens = max_prompt_tokens
        self.sources = sources
        self._known: dict[Hashable, tuple[int, ...]] = {}
        self._known_tokens = 0

    def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the ids of a conversation that ends with the opening of the policy's reply."""
        return tuple(self.policy.encode_chat(messages))

    def window(
        self, info: Mapping[str, Any], history: Sequence[Exchange] = (), shown: int | None = None
    ) -> tuple[int, ...]:
        """Return the ids of a window prompt; arguments as for `PromptBuilder.prompt`.

        Rendering is skipped, too, for a prompt that was met before: it is known by what the template reads.
        """
        builder = self.builder
        values = builder.values(info, history, shown)
        key: Hashable = builder.template.what_it_reads(values)
        if key is None:  # anything may be read, so the prompt is known by its text only
            key = builder.prompt(info, history, shown).text()
        ids = self._known.get(key)
        if ids is None:
            ids = self._known[key] = self.encode(builder.prompt(info, history, shown).messages())
            self._known_tokens += len(ids)
            while self._known_tokens > _CACHED_TOKENS and len(self._known) > 1:
                self._known_tokens -= len(self._known.pop(next(iter(self._known))))
        if self.sources is not None:
            self.sources.remember(ids, self, values)
        return ids

    def glue(self, message: Message, reply: Sequence[int]) -> tuple[int, ...]:
        """Return the ids between a reply and the next one, given what the reply already ends with.

        Raises:
            ConfigError: The chat template rewrites earlier messages, so full context cannot be kept exact.
        """
        text = self._glue_text(message)
        ids = tuple(self.policy.encode(text))
        # The template closes the turn with the end token; a reply that the model ended holds it already.
        if reply and ids and reply[-1] == ids[0] and reply[-1] in self.policy.eos_ids:
            ids = ids[1:]
        return ids

    def _glue_text(self, message: Message) -> str:
        stub = [{"role": "user", "content": "."}, {"role": "assistant", "content": _STUB}, message]
        text: str = self.policy.tokenizer.apply_chat_template(
            stub, add_generation_prompt=True, tokenize=False, **self.policy.template_arguments
        )
        before, found, after = text.partition(_STUB)
        if not found or not before:
            raise ConfigError(
                "the chat template does not show an earlier reply as it was, so env.context='full' cannot keep "
                "token ids exact; use env.context='window'"
            )
        return after


class Conversation:
    """The prompts of one episode.

    Args:
        encoder: Encoder shared by the episodes of a policy.
    """

    def __init__(self, encoder: PromptEncoder) -> None:
        self._encoder = encoder
        self._history: list[Exchange] = []
        self._ids: tuple[int, ...] = ()  # full context: everything so far

    def prompt(self, info: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Return the ids of the next prompt, or None if it does not fit the context limit.

        In window context the oldest history is dropped first; only a prompt without history that is still too
        long does not fit. Nothing is ever cut inside a segment.
        """
        encoder = self._encoder
        limit = encoder.max_prompt_tokens
        if encoder.context is ContextMode.FULL:
            if not self._ids:
                self._ids = encoder.window(info)
            return self._ids if len(self._ids) <= limit else None
        shown = min(encoder.builder.history_length, len(self._history))
        while True:
            ids = encoder.window(info, self._history, shown)
            if len(ids) <= limit:
                return ids
            if shown == 0:
                return None
            shown -= 1

    def add(
        self, before: Mapping[str, Any], action: str | None, reply: Sequence[int], after: Mapping[str, Any]
    ) -> None:
        """Record a turn.

        Args:
            before: Info that the policy saw.
            action: Action taken, None when the reply held none.
            reply: Sampled ids of the reply.
            after: Info that the environment returned.
        """
        self._history.append(Exchange(before["prompt_observation"], NO_ACTION if action is None else action))
        encoder = self._encoder
        if encoder.context is ContextMode.FULL:
            extended = (*self._ids, *reply)
            self._ids = (*extended, *encoder.glue(encoder.builder.follow_up(after), reply))
            assert self._ids[: len(extended)] == extended  # tokens in, tokens out


def prompt_encoder(
    policy: Policy, builder: PromptBuilder, config: TrainConfig, sources: PromptSources | None = None
) -> PromptEncoder:
    """Return the encoder of a policy's prompts; replies keep their room within the context limit."""
    rollout = config.rollout
    limit = rollout.max_context_tokens - rollout.max_reply_tokens
    return PromptEncoder(policy, builder, config.env.context, limit, sources)

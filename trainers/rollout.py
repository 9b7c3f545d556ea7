"""Sampling episodes from a policy: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agent_gym.core.batch import EnvRunner
from agent_gym.core.driver import LiveEpisode, Reply
from agent_gym.core.info import StopReason
from agent_gym.core.replies import ParsedReply
from trainers.conversation import Conversation, PromptEncoder
from trainers.samplers.base import Sampler, SamplingSettings

_CONVERSATION = "conversation"


class PolicyAgent:
    """Agent that answers every running episode with one batch of sampled replies.

    Args:
        encoder: Turns infos into prompt ids.
        sampler: Draws replies.
        settings: How replies are drawn.
        generator: CPU generator of all draws; None when greedy.
    """

    def __init__(
        self,
        encoder: PromptEncoder,
        sampler: Sampler,
        settings: SamplingSettings,
        generator: torch.Generator | None,
    ) -> None:
        self._encoder = encoder
        self._sampler = sampler
        self._settings = settings
        self._generator = generator

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return one reply an episode; an episode whose prompt does not fit is stopped."""
        prompts = []
        for episode in episodes:
            conversation = episode.memory.setdefault(_CONVERSATION, Conversation(self._encoder))
            prompts.append(conversation.prompt(episode.info))
        fitting = [prompt for prompt in prompts if prompt is not None]
        samples = iter(self._sampler.generate(fitting, self._settings, self._generator))
        replies = []
        for prompt in prompts:
            if prompt is None:
                replies.append(Reply("", stop=StopReason.CONTEXT_OVERFLOW))
                continue
            sample = next(samples)
            reply = Reply(
                self._encoder.policy.decode(sample.ids),
                sample.finish_reason,
                prompt_ids=prompt,
                reply_ids=sample.ids,
                logprobs=sample.logprobs,
                entropies=sample.entropies,
            )
            replies.append(reply)
        return replies

    def observe(
        self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply
    ) -> None:
        """Add the turn to the episode's conversation."""
        conversation: Conversation = episode.memory[_CONVERSATION]
        conversation.add(before, parsed.action, reply.reply_ids or (), episode.info)

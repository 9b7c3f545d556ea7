"""Sampling episodes from a policy: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from agent_gym.core.info import FinishReason, StopReason
from agent_gym.core.replies import ParsedReply
from agent_gym.play.driver import LiveEpisode
from agent_gym.play.reply import Reply, Sample
from agent_gym.play.runner import EnvRunner
from agent_gym.support.seeding import derive_seed
from trainers.rollout.conversation import Conversation, PromptEncoder
from trainers.rollout.samplers.base import Sampler
from trainers.settings.sampling import SamplingSettings

if TYPE_CHECKING:
    from trainers.rollout.samplers.base import Draws

_CONVERSATION = "conversation"
_SHORT = 16  # tokens up to which a reply is likely to be said again


class EpisodeDraws:
    """Random numbers that depend on an episode's seed and turn only.

    An episode then gets the same replies whatever it is batched with and whichever process plays it (up to
    rounding of the logits), so an evaluation that was interrupted goes on as an unbroken one would have.

    Args:
        seeds: Seed of each request's draws, for episodes that share the seed of their reset; None takes the
            latter.
    """

    def __init__(self, seeds: Sequence[int] | None = None) -> None:
        self._seeds = seeds

    def of(self, episode: LiveEpisode) -> torch.Generator:
        """Return the generator of an episode's next reply."""
        own = episode.request.seed if self._seeds is None else self._seeds[episode.index]
        seed = derive_seed("draws", own, episode.info["task_id"], episode.info["turn"])
        return torch.Generator().manual_seed(seed)


class PolicyAgent:
    """Agent that answers every running episode with one batch of sampled replies.

    Args:
        encoder: Turns infos into prompt ids.
        sampler: Draws replies.
        settings: How replies are drawn.
        generator: CPU generator of all draws, or draws by episode; None when greedy.
    """

    def __init__(
        self,
        encoder: PromptEncoder,
        sampler: Sampler,
        settings: SamplingSettings,
        generator: torch.Generator | EpisodeDraws | None,
    ) -> None:
        self._encoder = encoder
        self._sampler = sampler
        self._settings = settings
        self._generator = generator
        self._texts: dict[tuple[int, ...], str] = {}  # many episodes say the same few replies

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return one reply an episode; an episode whose prompt does not fit is stopped."""
        prompts = []
        for episode in episodes:
            conversation = episode.memory.setdefault(_CONVERSATION, Conversation(self._encoder))
            prompts.append(conversation.prompt(episode.info))
        fitting = [prompt for prompt in prompts if prompt is not None]
        draws: Draws | None
        if isinstance(self._generator, EpisodeDraws):
            pairs = zip(episodes, prompts, strict=True)
            draws = [self._generator.of(episode) for episode, prompt in pairs if prompt is not None]
        else:
            draws = self._generator
        samples = iter(self._sampler.generate(fitting, self._settings, draws))
        replies = []
        for prompt in prompts:
            if prompt is None:
                replies.append(Reply("", stop=StopReason.CONTEXT_OVERFLOW))
                continue
            sample = next(samples)
            replies.append(Reply.sampled(self._text(sample), prompt, sample))
        return replies

    def _text(self, sample: Sample) -> str:
        """Return the reply's text without its end token, which differs between models."""
        ids = sample.ids[:-1] if sample.finish_reason is FinishReason.STOP else sample.ids
        text = self._texts.get(ids)
        if text is None:
            text = self._encoder.policy.decode(ids)
            if len(ids) <= _SHORT:
                self._texts[ids] = text
        return text

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Add the turn to the episode's conversation."""
        conversation: Conversation = episode.memory[_CONVERSATION]
        conversation.add(before, parsed.action, reply.sample.ids if reply.sample else (), episode.info)

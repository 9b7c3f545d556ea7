"""`hf:PATH`: a causal language model of this machine, played with the environment's own prompts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from agent_gym.core.prompts import ContextMode
from agent_gym.play.driver import EnvHandle
from agent_gym.support.errors import ConfigError
from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.play_options import PlayOptions, read_options

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LocalOptions(PlayOptions):
    """Options of `hf:` agents."""

    dtype: str = "auto"
    """Dtype of the weights: auto, float32, bfloat16, float16."""
    max_context_tokens: int = 4096
    """Longest prompt and reply together (window) or conversation (full)."""
    allow_downloads: bool = False
    """Let Hugging Face download missing files."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_context_tokens <= self.max_reply_tokens:
            raise ConfigError(
                f"max_context_tokens ({self.max_context_tokens}) must exceed max_reply_tokens "
                f"({self.max_reply_tokens}): a prompt must fit too"
            )


class LocalKind(AgentKind):
    """`hf:PATH` loads a folder, or a hub id from the local cache, with its chat template."""

    name = "hf"
    usage = "hf:PATH"
    summary = "a causal language model on this machine"

    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Load the model and make its agent; imports torch."""
        if not argument:
            raise ConfigError(f"agent 'hf' needs a folder or a hub id: {self.usage}")
        options = read_options(LocalOptions, settings.options, self.name)
        from trainers.policy.files import find_model

        find_model(argument, options.allow_downloads, switch="--agent-option allow_downloads=true")
        from trainers.policy.policy import Policy
        from trainers.rollout.agent import EpisodeDraws, PolicyAgent
        from trainers.rollout.conversation import PromptEncoder
        from trainers.rollout.samplers.hf import HFSampler
        from trainers.settings.sampling import SamplingSettings

        policy = Policy.load(
            argument, device=settings.device, dtype=options.dtype, allow_downloads=options.allow_downloads
        )
        policy.check_template()
        for note in policy.notes(full_context=options.context is ContextMode.FULL):
            _LOG.warning("%s", note)
        sampling = SamplingSettings(
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            max_reply_tokens=options.max_reply_tokens,
            greedy=options.greedy,
        )
        limit = options.max_context_tokens - options.max_reply_tokens
        encoder = PromptEncoder(policy, options.builder(handle), options.context, limit)
        draws = None if options.greedy else EpisodeDraws()
        player = PolicyAgent(encoder, HFSampler(policy, max_batch=settings.parallel), sampling, draws)
        identity: dict[str, Any] = {
            "checksum": policy.checksum(),
            "parameters": policy.n_parameters,
            **options.identity(),
        }
        return Contestant(f"{self.name}:{argument}", player, identity, options.reply_mode)

"""The parts of a run that settings describe: environment, prompts, policy, sampler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from agent_gym.core.batch import EnvRunner, InProcessRunner
from agent_gym.core.driver import EnvFace
from agent_gym.core.pool import ProcessPoolRunner
from agent_gym.core.prompts import PromptBuilder, template_for
from trainers.config import TINY, EnvSettings, ModelSettings, TrainConfig
from trainers.conversation import PromptEncoder
from trainers.policy import Policy
from trainers.samplers.base import SamplingSettings
from trainers.tiny import TinySpec, build_tiny


@dataclass(frozen=True)
class Stage:
    """One split of the environment and the processes or slots that play it.

    Attributes:
        face: Environment of the split: grammar, prompts, tasks.
        runner: Its environments.
    """

    face: EnvFace
    runner: EnvRunner

    @classmethod
    def make(cls, settings: EnvSettings, split: str, slots: int) -> Stage:
        """Make the stage of a split with room for `slots` running episodes."""
        options = {**settings.options, "split": split}
        face = EnvFace.make(settings.id, options, settings.reply_mode)
        runner: EnvRunner
        if settings.workers:
            runner = ProcessPoolRunner(face.env_id, options, slots, settings.workers)
        else:
            runner = InProcessRunner((face.env_id, options), slots)
        return cls(face, runner)

    def close(self) -> None:
        """Close the environments."""
        self.runner.close()
        self.face.env.close()


def prompt_builder(face: EnvFace, settings: EnvSettings) -> PromptBuilder:
    """Return the prompt builder that the settings describe."""
    return PromptBuilder(template_for(face.env, settings.prompt), settings.history_length, settings.thoughts)


def prompt_encoder(policy: Policy, builder: PromptBuilder, config: TrainConfig) -> PromptEncoder:
    """Return the encoder of a policy's prompts; replies keep their room within the context limit."""
    rollout = config.rollout
    limit = rollout.max_context_tokens - rollout.max_reply_tokens
    return PromptEncoder(policy, builder, config.env.context, limit)


def tiny_policy(corpus: Iterable[str], settings: ModelSettings, seed: int, device: str) -> Policy:
    """Build the embedded policy, its tokenizer trained on `corpus`."""
    spec = TinySpec(
        hidden=settings.hidden,
        layers=settings.layers,
        heads=settings.heads,
        vocab_size=settings.vocab_size,
        seed=seed,
    )
    return build_tiny(corpus, spec, device=device)


def load_policy(settings: ModelSettings, device: str) -> Policy:
    """Load the causal language model that the settings name."""
    assert settings.path != TINY
    return Policy.load(settings.path, device=device, dtype=settings.dtype, allow_downloads=settings.allow_downloads)


def load_trained(folder: str | Path, device: str) -> Policy:
    """Load a policy that a run saved."""
    return Policy.load(folder, device=device)


def training_sampling(config: TrainConfig) -> SamplingSettings:
    """Return how training replies are drawn; truncated sampling is refused."""
    rollout = config.rollout
    return SamplingSettings(
        temperature=rollout.temperature, max_reply_tokens=rollout.max_reply_tokens
    ).for_training()


def evaluation_sampling(config: TrainConfig) -> SamplingSettings:
    """Return how evaluation replies are drawn."""
    settings = config.evaluation
    return SamplingSettings(
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        max_reply_tokens=config.rollout.max_reply_tokens,
        greedy=settings.greedy,
    )


def configure_torch(config: TrainConfig) -> None:
    """Set threads and determinism of this process as the settings ask."""
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    if config.run.deterministic and torch.cuda.is_available():
        # CPU kernels repeat as they are at one thread count; the switch itself is slow to import.
        torch.use_deterministic_algorithms(True, warn_only=True)

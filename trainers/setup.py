"""The parts of a run that settings describe: environment, prompts, policy, sampler."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from agent_gym.core.prompts import PromptBuilder, template_for
from agent_gym.core.replies import ReplyGrammar
from agent_gym.play.driver import EnvHandle
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.runner import EnvRunner, InProcessRunner
from agent_gym.support.errors import ConfigError
from trainers.policy.policy import Policy
from trainers.policy.tiny import build_tiny
from trainers.rollout.conversation import PromptEncoder
from trainers.rollout.masked_prompts import PromptSources
from trainers.rollout.samplers.base import Sampler, SamplingSettings
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.config import TINY, EnvSettings, ModelSettings, SamplerKind, TrainConfig


@dataclass(frozen=True)
class SplitEnvs:
    """One split of the environment and the processes or slots that play it.

    Attributes:
        handle: Environment of the split: grammar, prompts, tasks.
        runner: Its environments.
    """

    handle: EnvHandle
    runner: EnvRunner

    @classmethod
    def make(cls, settings: EnvSettings, split: str, slots: int) -> SplitEnvs:
        """Make the stage of a split with room for `slots` running episodes."""
        options = {**settings.options, "split": split}
        handle = EnvHandle.make(settings.id, options, settings.reply_mode)
        runner: EnvRunner
        if settings.ray is not None:
            from agent_gym.play.ray_pool import RayPoolRunner

            runner = RayPoolRunner(handle.env_id, options, slots, settings.workers or None, address=settings.ray)
        elif settings.workers:
            runner = ProcessPoolRunner(handle.env_id, options, slots, settings.workers)
        else:
            runner = InProcessRunner((handle.env_id, options), slots)
        return cls(handle, runner)

    def close(self) -> None:
        """Close the environments."""
        self.runner.close()
        self.handle.env.close()


def prompt_builder(handle: EnvHandle, settings: EnvSettings) -> PromptBuilder:
    """Return the prompt builder that the settings describe."""
    return PromptBuilder(template_for(handle.env, settings.prompt), settings.history_length, settings.thoughts)


def prompt_encoder(
    policy: Policy, builder: PromptBuilder, config: TrainConfig, sources: PromptSources | None = None
) -> PromptEncoder:
    """Return the encoder of a policy's prompts; replies keep their room within the context limit."""
    rollout = config.rollout
    limit = rollout.max_context_tokens - rollout.max_reply_tokens
    return PromptEncoder(policy, builder, config.env.context, limit, sources)


def tiny_policy(
    corpus: Iterable[str], settings: ModelSettings, seed: int, device: str, grammars: Iterable[ReplyGrammar] = ()
) -> Policy:
    """Build the embedded policy, its tokenizer trained on `corpus`; the grammars' tags become tokens."""
    tags = dict.fromkeys(tag for grammar in grammars for tag in (*grammar.tags, grammar.thought_tag))
    markup = tuple(text for tag in tags for text in (f"<{tag}>", f"</{tag}>"))
    spec = replace(settings.tiny_spec(), seed=seed)
    if markup:
        spec = replace(spec, markup=markup)
    return build_tiny(corpus, spec, device=device)


def load_policy(settings: ModelSettings, device: str) -> Policy:
    """Load the causal language model that the settings name, with new adapters if they ask for them."""
    assert settings.path != TINY
    policy = _load(settings.path, settings, device)
    if settings.lora is None:
        return policy
    from trainers.policy.lora import add_lora

    return add_lora(policy, settings.lora)


def load_trained(folder: str | Path, settings: ModelSettings, device: str) -> Policy:
    """Load a policy that a run with these settings saved."""
    return _load(folder, settings, device)


def _load(source: str | Path, settings: ModelSettings, device: str) -> Policy:
    return Policy.load(
        source,
        device=device,
        dtype=settings.dtype,
        autocast=settings.autocast,
        allow_downloads=settings.allow_downloads,
        chat_template_kwargs=settings.chat_template_kwargs,
    )


def prepare_training(policy: Policy, config: TrainConfig) -> list[str]:
    """Set how the policy is differentiated; returns what a user should know of these weights.

    Raises:
        ConfigError: Its weights are float16, and the run trains them or adapters beside them.
    """
    if config.trains and any(value.dtype is torch.float16 for value in policy.model.parameters()):
        raise ConfigError(
            f"the weights at model.path={config.model.path!r} are float16 (model.dtype={config.model.dtype!r}), "
            "which cannot be trained: without a scaled loss most gradients round to 0. Set model.dtype='bfloat16', "
            "or 'float32' with model.autocast='bfloat16'"
        )
    if config.optim.gradient_checkpointing:
        policy.enable_gradient_checkpointing()
    short = {str(value.dtype).removeprefix("torch.") for value in policy.parameters() if value.itemsize < 4}
    if not short:
        return []
    return [
        f"The trained weights are {', '.join(sorted(short))}: updates smaller than their rounding are lost. Full "
        "training at small learning rates needs model.dtype=float32 with model.autocast=bfloat16, or model.lora."
    ]


def make_sampler(policy: Policy, config: TrainConfig) -> Sampler:
    """Return the engine that the settings name, with the policy's weights.

    Raises:
        ConfigError: It is not installed.
    """
    rollout = config.rollout
    if rollout.sampler is SamplerKind.CONTINUOUS:
        from trainers.rollout.samplers.continuous import ContinuousSampler

        return ContinuousSampler(
            policy, max_batch=rollout.max_parallel, max_tokens=rollout.max_context_tokens, **rollout.sampler_options
        )
    if rollout.sampler is SamplerKind.VLLM:
        from trainers.rollout.samplers.vllm import VLLMSampler

        return VLLMSampler(
            policy, max_batch=rollout.max_parallel, max_tokens=rollout.max_context_tokens, **rollout.sampler_options
        )
    return HFSampler(policy, max_batch=rollout.max_parallel)


def training_sampling(config: TrainConfig) -> SamplingSettings:
    """Return how training replies are drawn."""
    return config.rollout.sampling()


def evaluation_sampling(config: TrainConfig) -> SamplingSettings:
    """Return how evaluation replies are drawn."""
    return config.evaluation.sampling(config.rollout.max_reply_tokens)


def configure_torch(config: TrainConfig) -> None:
    """Set threads and determinism of this process as the settings ask; to be called before CUDA computes."""
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    if not config.run.deterministic:
        return
    # cuBLAS repeats its results with a workspace of fixed size only, which it reads when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if torch.cuda.is_available():
        # CPU kernels repeat as they are at one thread count; the switch itself is slow to import.
        torch.use_deterministic_algorithms(True, warn_only=True)

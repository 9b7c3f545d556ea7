"""From settings to the engine that draws replies."""

from __future__ import annotations

from trainers.policy.policy import Policy
from trainers.rollout.samplers.base import Sampler
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.rollout import RolloutSettings, SamplerKind


def make_sampler(policy: Policy, rollout: RolloutSettings) -> Sampler:
    """Return the engine that the settings name, with the policy's weights.

    Raises:
        ConfigError: It is not installed.
    """
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

"""What is checked before a run begins: mistakes that would otherwise show minutes later."""

from __future__ import annotations

from importlib.util import find_spec

from agent_gym.support.errors import ConfigError
from trainers.policy.devices import resolve_device, resolve_dtype
from trainers.policy.files import check_model
from trainers.policy.ranks import Ranks
from trainers.rollout.environments import TrainEnvs, prompt_builder
from trainers.settings.rollout import SamplerKind
from trainers.settings.run import TrainConfig


def check_parts(config: TrainConfig, ranks: Ranks, *, started: bool = False) -> None:
    """Check that model, device and sampler are here.

    Args:
        config: Settings of the run.
        ranks: The processes of the run.
        started: Whether the run has a policy of its own already, and the model is no longer needed.

    Raises:
        ConfigError: The device is not here, or the sampler is not installed or does not fit several processes.
        DataError: There is no such model.
    """
    if not started:
        check_model(config.model)
    resolve_device(ranks.device(config.device))
    if config.model.dtype != "auto":
        resolve_dtype(config.model.dtype)
    sampler = config.rollout.sampler
    if ranks.size > 1 and sampler is not SamplerKind.HF:
        raise ConfigError(
            f"rollout.sampler={sampler.value!r} reads the weights of one process, and the policy is spread over "
            f"{ranks.size}; use rollout.sampler='{SamplerKind.HF.value}'"
        )
    if sampler is SamplerKind.VLLM and find_spec("vllm") is None:
        from trainers.rollout.samplers.vllm import MISSING

        raise ConfigError(MISSING)


def check_prompts(envs: TrainEnvs) -> None:
    """Check that every environment has the prompt that the settings name.

    Raises:
        ConfigError: One has no such prompt.
    """
    for env in envs.envs:
        prompt_builder(env.train.handle, env.settings)

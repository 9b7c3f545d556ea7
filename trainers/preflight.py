"""What is checked before a run begins: mistakes that would otherwise show minutes later."""

from __future__ import annotations

from importlib.util import find_spec

from agent_gym.support.errors import ConfigError
from trainers.policy.files import check_model
from trainers.policy.policy import resolve_device, resolve_dtype
from trainers.policy.ranks import World
from trainers.rollout.environments import Lanes
from trainers.settings.config import SamplerKind, TrainConfig
from trainers.setup import prompt_builder


def check_parts(config: TrainConfig, world: World, *, started: bool = False) -> None:
    """Check that model, device and sampler are here.

    Args:
        config: Settings of the run.
        world: The processes of the run.
        started: Whether the run has a policy of its own already, and the model is no longer needed.

    Raises:
        ConfigError: The device is not here, or the sampler is not installed or does not fit several processes.
        DataError: There is no such model.
    """
    if not started:
        check_model(config.model)
    resolve_device(world.device(config.device))
    if config.model.dtype != "auto":
        resolve_dtype(config.model.dtype)
    sampler = config.rollout.sampler
    if world.size > 1 and sampler is not SamplerKind.HF:
        raise ConfigError(
            f"rollout.sampler={sampler.value!r} reads the weights of one process, and the policy is spread over "
            f"{world.size}; use rollout.sampler='{SamplerKind.HF.value}'"
        )
    if sampler is SamplerKind.VLLM and find_spec("vllm") is None:
        from trainers.rollout.samplers.vllm import MISSING

        raise ConfigError(MISSING)


def check_prompts(lanes: Lanes) -> None:
    """Check that every environment has the prompt that the settings name.

    Raises:
        ConfigError: One has no such prompt.
    """
    for lane in lanes.lanes:
        prompt_builder(lane.train.face, lane.settings)

"""Low-rank adapters: train a small number of new weights beside frozen ones (peft).

A policy with adapters behaves as any other. Saving writes the adapters only; loading them needs the base model
where it was; `merged` gives a policy that stands alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agent_gym.core.errors import ConfigError, DataError
from trainers.policy import Policy

_ADAPTER_CONFIG = "adapter_config.json"
_ADAPTER_WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Size and place of the adapters."""

    rank: int = 16
    """Inner dimension."""
    alpha: float = 32.0
    """The adapter's output is scaled by alpha / rank."""
    targets: str | tuple[str, ...] = "all-linear"
    """Names of the linear layers that get adapters; "all-linear" is every one but the output head."""
    seed: int = 0
    """Seed of the initial weights."""

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0.0:
            raise ConfigError(f"rank and alpha must be positive, got rank={self.rank}, alpha={self.alpha}")


def add_lora(policy: Policy, settings: LoraSettings | None = None) -> Policy:
    """Freeze the weights of `policy` and return one with trainable adapters around the same model.

    The new policy starts out equal to the old one; adapters have no dropout. The global random generator is
    left as it was.

    Raises:
        ConfigError: The policy has adapters already, or no layer has one of the target names.
    """
    from peft import LoraConfig, get_peft_model

    if policy.has_adapters:
        raise ConfigError("the policy has adapters already; merge them first (trainers.lora.merged)")
    settings = settings or LoraSettings()
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]
        target_modules=targets,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    devices = [policy.device] if policy.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(settings.seed)
        try:
            model = get_peft_model(policy.model, config)
        except ValueError as error:
            raise ConfigError(f"no adapter can be put on {targets!r}: {error}") from error
    return policy.with_model(model)


def merged(policy: Policy) -> Policy:
    """Return a copy whose adapters are added into plain weights; it saves and loads without the base."""
    return policy.with_model(copy.deepcopy(policy.model).merge_and_unload())


def is_adapter_folder(folder: str | Path) -> bool:
    """Return whether `folder` holds adapters rather than a whole model."""
    return (Path(folder) / _ADAPTER_CONFIG).is_file()


def save_adapters(model: Any, folder: str | Path) -> None:
    """Write the adapters of a peft model."""
    # Deciding whether embeddings belong to an adapter would ask the hub for the base model's config.
    model.save_pretrained(str(folder), save_embedding_layers=False)


def load_adapters(model: Any, folder: str | Path) -> None:
    """Replace a peft model's adapter weights, in place.

    Raises:
        DataError: The folder holds no adapters, or others.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict
    from safetensors.torch import load_file

    file = Path(folder) / _ADAPTER_WEIGHTS
    if not file.is_file():
        raise DataError(f"{str(folder)!r} holds no adapters: {_ADAPTER_WEIGHTS} is missing")
    saved = load_file(str(file))
    expected = {key: value.shape for key, value in get_peft_model_state_dict(model).items()}
    if {key: value.shape for key, value in saved.items()} != expected:
        raise DataError(
            f"{str(file)!r} holds {len(saved)} adapter tensors that do not fit, expected {len(expected)} of the "
            "model's rank and targets"
        )
    set_peft_model_state_dict(model, saved)


def load_on_base(folder: str | Path, load_base: Callable[[str], Any]) -> Any:
    """Return a peft model: the base that an adapter folder names, with its adapters, trainable.

    Raises:
        DataError: The folder does not name its base.
    """
    from peft import PeftModel

    config = json.loads((Path(folder) / _ADAPTER_CONFIG).read_text("utf-8"))
    base = config.get("base_model_name_or_path")
    if not base:
        raise DataError(
            f"the adapters in {str(folder)!r} do not name the model they belong to; save a merged policy "
            "(trainers.lora.merged) instead"
        )
    return PeftModel.from_pretrained(load_base(base), str(folder), is_trainable=True)

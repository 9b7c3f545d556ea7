"""The policy that settings describe: a pretrained model, with new adapters if asked for, or the embedded one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from agent_gym.core.prompts import ContextMode
from agent_gym.core.replies import ReplyGrammar
from agent_gym.support.errors import ConfigError
from trainers.policy.lora import add_lora
from trainers.policy.policy import Policy
from trainers.policy.recompute import check_recomputation
from trainers.policy.tiny import build_tiny
from trainers.settings.model import TINY, ModelSettings
from trainers.settings.run import TrainConfig


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
        ConfigError: Its weights are float16, and the run trains them or adapters beside them; it has no chat
            template; or it cannot recompute activations, and the settings ask for it.
    """
    if config.trains and any(value.dtype is torch.float16 for value in policy.model.parameters()):
        raise ConfigError(
            f"the weights at model.path={config.model.path!r} are float16 (model.dtype={config.model.dtype!r}), "
            "which cannot be trained: without a scaled loss most gradients round to 0. Set model.dtype='bfloat16', "
            "or 'float32' with model.autocast='bfloat16'"
        )
    if config.optim.gradient_checkpointing:
        policy.enable_gradient_checkpointing()
        check_recomputation(policy)
    policy.check_template()
    notes = policy.notes(full_context=config.env.context is ContextMode.FULL)
    short = {str(value.dtype).removeprefix("torch.") for value in policy.parameters() if value.itemsize < 4}
    if not short:
        return notes
    return [
        *notes,
        f"The trained weights are {', '.join(sorted(short))}: updates smaller than their rounding are lost. Full "
        "training at small learning rates needs model.dtype=float32 with model.autocast=bfloat16, or model.lora.",
    ]

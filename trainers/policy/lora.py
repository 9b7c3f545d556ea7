"""Low-rank adapters: train a small number of new weights beside frozen ones (peft).

A policy with adapters behaves as any other. Saving writes the adapters only; loading them needs the base model
where it was; `merged` gives a policy that stands alone. The reference of a KL term shares the base with the policy
in training: `reference_of` keeps the adapters' starting weights only, or nothing where they started out empty.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from agent_gym.support.errors import ConfigError
from trainers.policy.logprobs import Scorer, TokenStats
from trainers.policy.policy import Policy
from trainers.policy.storage import AdaptersOnly, WholeModel
from trainers.policy.token_rows import PaddedRows
from trainers.run.shards import place_like
from trainers.settings.lora import LoraSettings


def add_lora(policy: Policy, settings: LoraSettings | None = None) -> Policy:
    """Freeze the weights of `policy` and return one with trainable adapters around the same model.

    The new policy starts out equal to the old one; adapters have no dropout. The global random generator is
    left as it was.

    Raises:
        ConfigError: The policy has adapters already, or no layer has one of the target names.
    """
    from peft import LoraConfig, get_peft_model

    if policy.has_adapters:
        raise ConfigError("the policy has adapters already; merge them first (trainers.policy.lora.merged)")
    settings = settings or LoraSettings()
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]
        target_modules=targets,
        exclude_modules=_not_adapted(policy.model) if isinstance(targets, str) else None,
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
    return policy.with_model(model, AdaptersOnly())


def _not_adapted(model: Any) -> list[str] | None:
    """Return the linear layers that "all-linear" must leave out; None for none.

    Routers of experts return more than one tensor. Kernels of recurrent layers read the weight of the projection
    after them without calling it, so that an adapter there would be passed over.
    """
    names = []
    for path, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            parent = model.get_submodule(path.rpartition(".")[0])
            # Mamba's skip connection is called D.
            recurrent = path.endswith("out_proj") and hasattr(parent, "conv1d") and hasattr(parent, "D")
            if recurrent or "Router" in type(layer).__name__:
                names.append(path)
    return names or None


def merged(policy: Policy) -> Policy:
    """Return a copy whose adapters are added into plain weights; it saves and loads without the base."""
    return policy.with_model(copy.deepcopy(policy.model).merge_and_unload(), WholeModel())


class AdapterReference:
    """The policy as it is now, for as long as it is trained, without a second copy of the base model.

    Adapters that add nothing yet are switched off while the reference scores; others are exchanged for the
    weights they had when the reference was made, which take the place of a few percent of a copy.

    Args:
        policy: A policy with adapters. It goes on being trained.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        # B starts at zero and is the last factor: an adapter adds nothing as long as it stays there.
        empty = all(not value.any() for name, value in policy.named_parameters() if "lora_B" in name)
        self._kept = None if empty else [value.detach().clone() for value in policy.parameters()]

    @torch.no_grad()
    def token_stats(
        self,
        batch: PaddedRows,
        temperature: float = 1.0,
        entropy: bool = True,
        greedy: bool = False,
        *,
        entropy_gradient: bool = True,
    ) -> TokenStats:
        """Score the sampled tokens of `batch`, never with gradient; see `Policy.token_stats`."""
        with self._in_place():
            return self._policy.token_stats(batch, temperature, entropy, greedy)

    def _in_place(self) -> AbstractContextManager[Any]:
        if self._kept is None:
            switched_off: AbstractContextManager[Any] = self._policy.model.disable_adapter()
            return switched_off
        return self._exchanged(self._kept)

    @contextmanager
    def _exchanged(self, kept: list[torch.Tensor]) -> Iterator[None]:
        # Copied rather than exchanged: a sharded parameter is gathered from the memory that it had at first.
        parameters = self._policy.parameters()
        trained = [value.detach().clone() for value in parameters]
        for value, start in zip(parameters, kept, strict=True):
            value.copy_(place_like(start, value))
        try:
            yield
        finally:
            for value, current in zip(parameters, trained, strict=True):
                value.copy_(current)


def reference_of(policy: Policy) -> Scorer:
    """Return the policy as it is now, frozen, for a KL term: a copy, or with adapters one without."""
    return AdapterReference(policy) if policy.has_adapters else policy.reference_copy()

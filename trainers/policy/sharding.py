"""A policy whose weights, gradients and optimiser state are spread over processes (FSDP2, `fully_shard`).

Gradients are summed over the processes, not averaged: losses are divided by totals of the whole minibatch, over
all processes, before they get here. Every forward and backward pass is a collective, so all processes take
the same number of them; rollouts read whole weights instead (`whole_weights`), which needs no collective.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.run.shards import whole
from trainers.run.state import OptimizerState, optimizer_state


def shard(policy: Policy, ranks: Ranks) -> None:
    """Spread a policy's weights, in place, over the processes; in a single process nothing happens.

    Optimisers are made afterwards, since parameters are replaced.
    """
    if ranks.size == 1:
        return
    model = policy.model
    separable = policy.separable  # found by a forward pass, while weights are whole
    mesh = init_device_mesh(policy.device.type, (ranks.size,))
    half = any(value.dtype in (torch.bfloat16, torch.float16) for value in model.parameters())
    # Sums over many processes lose digits in half precision.
    precision = MixedPrecisionPolicy(reduce_dtype=torch.float32 if half else None)
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)
    for module in _sharded(model):
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)  # gloo knows no scaled sums
    policy.renew_reader(separable)


def _blocks(model: Any) -> list[torch.nn.Module]:
    """Return the transformer blocks: the modules that Hugging Face says must not be split."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = set(getattr(base, "_no_split_modules", None) or ())
    return [module for module in model.modules() if type(module).__name__ in names]


def _sharded(model: torch.nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


@contextmanager
def whole_weights(policy: Policy) -> Iterator[None]:
    """Keep the whole weights on every process meanwhile, so that forward passes wait for nobody.

    All processes enter together; inside, each may take as many forward passes without gradient as it likes.
    Costs the memory of the unsharded weights.
    """
    modules = _sharded(policy.model)
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in modules:
            module.set_reshard_after_forward(True, recurse=False)
            module.reshard()


@dataclass(frozen=True)
class Snapshot:
    """A sharded policy's whole weights and optimiser state, gathered: what the main process writes.

    Attributes:
        policy: The policy.
        weights: Whole weights by name, on the CPU.
        optimizer: Whole optimiser state.
    """

    policy: Policy
    weights: Mapping[str, torch.Tensor]
    optimizer: OptimizerState

    @classmethod
    def take(cls, policy: Policy, optimizer: torch.optim.Optimizer, ranks: Ranks) -> Snapshot | None:
        """Gather a policy and its optimiser; None on other processes than the main one. All have to call it."""
        weights = {}
        for name, value in policy.model.state_dict().items():
            gathered = whole(value)
            if ranks.is_main:
                weights[name] = gathered.detach().to("cpu", copy=True)
        state = optimizer_state(optimizer, policy.named_parameters(), keep=ranks.is_main)
        return cls(policy, weights, state) if ranks.is_main else None

    def save(self, folder: str | Path) -> None:
        """Write the policy as `Policy.save` does."""
        self.policy.save(folder, weights=self.weights)

    def load_weights(self, folder: str | Path) -> None:
        """Replace the policy's weights; see `Policy.load_weights`."""
        self.policy.load_weights(folder)

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield the policy's trainable parameters with their names."""
        return self.policy.named_parameters()

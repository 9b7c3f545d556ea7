"""Activations that are recomputed in the backward pass, with nothing random in either pass.

Hugging Face models recompute in training mode only, where they also drop, jitter or skip at random, each family in
its own places. So a layer is in training mode only while it decides whether to recompute, and in evaluation mode
while it runs: a recomputed pass says what a plain one says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import checkpoint

from agent_gym.support.errors import ConfigError
from trainers.policy.probe import family_of
from trainers.policy.token_rows import TokenRow, pad_rows

if TYPE_CHECKING:
    from trainers.policy.policy import Policy

_FUNCTION = "_gradient_checkpointing_func"  # where transformers keeps what a layer recomputes with
_RANDOM = ("drop", "jitter")
_LARGEST = 1e-2
"""Share by which recomputed activations may change scores and gradients; where nothing is wrong they are equal."""
_FEW = 2**16
"""Elements of a weight whose gradient is compared."""


def switch_on(model: Any) -> None:
    """Have a model recompute its layers' activations wherever they are in training mode.

    Args:
        model: A Hugging Face model, or one wrapped by peft.

    Raises:
        ValueError: The family cannot.
    """
    # Renamed within transformers 5. Nothing is random here, so no generator state needs to be kept.
    renamed = getattr(model, "activation_checkpointing_enable", None)
    (renamed or model.gradient_checkpointing_enable)({"use_reentrant": False, "preserve_rng_state": False})


def recomputing(model: Any) -> list[torch.nn.Module]:
    """Make nothing random where a model recomputes, and return these modules.

    Args:
        model: One that was switched on, or a copy of one.
    """
    found = [module for module in model.modules() if getattr(module, "gradient_checkpointing", False)]
    for module in found:
        setattr(module, _FUNCTION, _calm(module))
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and any(word in name for word in _RANDOM):
                setattr(module, name, 0.0)
    return found


def _calm(module: torch.nn.Module) -> Callable[..., Any]:
    """Return the function that runs a part of `module` again in the backward pass, both times in evaluation."""

    def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def calm(*inner: Any, **named: Any) -> Any:
            before, module.training = module.training, False
            try:
                return function(*inner, **named)
            finally:
                module.training = before

        return checkpoint(calm, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run


@contextmanager
def in_training(modules: list[torch.nn.Module]) -> Iterator[None]:
    """Put modules, and not what is inside them, in training mode for a forward pass."""
    for module in modules:
        module.training = True
    try:
        yield
    finally:
        for module in modules:
            module.training = False


def check_recomputation(policy: Policy) -> None:
    """Check on a short row that recomputed activations give the scores and gradients of stored ones.

    Args:
        policy: One that recomputes (`Policy.enable_gradient_checkpointing`).

    Raises:
        ConfigError: They do not.
    """
    batch = pad_rows([TokenRow.from_reply([policy.pad_id], [policy.end_id] * 3)], policy.pad_id)
    # Vectors are in every layer and small: a pass that goes wrong shows in them.
    watched = [value for value in policy.parameters() if value.dim() == 1 or value.numel() < _FEW]

    def results() -> list[torch.Tensor]:
        logp_BT = policy.token_stats(batch, entropy=False).logp
        gradients = torch.autograd.grad(logp_BT.sum(), watched, allow_unused=True) if watched else ()
        return [logp_BT.detach(), *(value.float() for value in gradients if value is not None)]

    again = results()
    with policy.storing():
        stored = results()
    gaps = [
        float((one - other).abs().max() / other.abs().max().clamp_min(1e-6))
        for one, other in zip(again, stored, strict=True)
    ]
    if not max(gaps) <= _LARGEST:
        raise ConfigError(
            f"models of family {family_of(policy.base_model)!r} say something else while they recompute "
            f"activations: scores or gradients differ by {max(gaps):.1%}; set optim.gradient_checkpointing=false"
        )

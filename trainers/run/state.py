"""Optimiser and scheduler states as tensors and JSON, so that a checkpoint needs no pickle.

Not by torch.distributed.checkpoint.state_dict: its functions let an optimiser that has taken no step take one at
rate 0 first, so that a run resumed before its first step would count that step too and end with other weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from agent_gym.support.errors import ConfigError, DataError
from trainers.run.shards import place_like, whole

_SEPARATOR = "::"
_TENSOR, _TUPLE, _ITEMS = "__tensor__", "__tuple__", "__items__"


def dump_json(value: Any, what: str) -> str:
    """Return `value` as JSON text; tuples become lists.

    Raises:
        ConfigError: Something in it is not made of dicts, lists, strings, numbers, bools and None.
    """
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} must be JSON data to be saved in a checkpoint: {error}") from error


def encode(value: Any) -> Any:
    """Return `value` as JSON data from which `decode` gets tuples, tensors and integer keys back."""
    if isinstance(value, torch.Tensor):
        return {_TENSOR: value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, tuple):
        return {_TUPLE: [encode(entry) for entry in value]}
    if isinstance(value, list):
        return [encode(entry) for entry in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: encode(entry) for key, entry in value.items()}
        return {_ITEMS: [[encode(key), encode(entry)] for key, entry in value.items()]}
    return value


def decode(value: Any) -> Any:
    """Return what `encode` was given."""
    if isinstance(value, list):
        return [decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return torch.tensor(value[_TENSOR], dtype=getattr(torch, value["dtype"]))
    if _TUPLE in value:
        return tuple(decode(entry) for entry in value[_TUPLE])
    if _ITEMS in value:
        return {decode(key): decode(entry) for key, entry in value[_ITEMS]}
    return {key: decode(entry) for key, entry in value.items()}


class OptimizerState(NamedTuple):
    """The state of an optimiser.

    Attributes:
        tensors: Tensors under "parameter name::key", on the CPU.
        rest: Class, parameter groups with their options, scalars.
    """

    tensors: dict[str, torch.Tensor]
    rest: dict[str, Any]


def optimizer_state(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
    *,
    keep: bool = True,
) -> OptimizerState:
    """Return an optimiser's state as named tensors and JSON data.

    Sharded tensors (FSDP2) are gathered, which every rank has to take part in.

    Args:
        optimizer: Any optimiser whose state per parameter is tensors and scalars (AdamW, SGD, Adafactor ...).
        named_parameters: Names for its parameters.
        keep: False on a rank that only takes part in the gathering; its result holds no tensors.

    Raises:
        ConfigError: A parameter has no name, or its state holds something else than tensors and scalars.
    """
    groups = _group_names(optimizer, named_parameters)
    names = [name for group in groups for name in group]
    state = optimizer.state_dict()
    tensors: dict[str, torch.Tensor] = {}
    scalars: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        for key, value in entries.items():
            if isinstance(value, torch.Tensor):
                value = whole(value)
                if not keep:
                    continue
                # A copy: safetensors refuses tensors that share memory.
                tensors[f"{names[index]}{_SEPARATOR}{key}"] = value.detach().to("cpu", copy=True).contiguous()
            elif value is None or isinstance(value, bool | int | float | str):
                scalars.setdefault(names[index], {})[key] = value
            else:
                raise ConfigError(
                    f"optimiser state {key!r} of {names[index]!r} is a {type(value).__name__}; a checkpoint "
                    "holds tensors and scalars only"
                )
    options = [
        {key: encode(value) for key, value in group.items() if key not in ("params", "param_names")}
        for group in state["param_groups"]
    ]
    rest = {
        "optimizer": type(optimizer).__name__,
        "groups": [{"names": group, "options": option} for group, option in zip(groups, options, strict=True)],
        "scalars": scalars,
    }
    return OptimizerState(tensors, rest)


def load_optimizer_state(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
    tensors: Mapping[str, torch.Tensor],
    saved: Mapping[str, Any],
) -> None:
    """Put `optimizer`, in place, into a state from `optimizer_state`, matching parameters by name.

    A sharded optimiser takes its part of the whole tensors; it need not be sharded as the saved one was.

    Raises:
        DataError: The saved optimiser is of another class or has other parameters.
    """
    if saved["optimizer"] != type(optimizer).__name__:
        raise DataError(f"the checkpoint holds {saved['optimizer']} state, expected {type(optimizer).__name__}")
    groups = _group_names(optimizer, named_parameters)
    before = [sorted(group["names"]) for group in saved["groups"]]
    if before != [sorted(group) for group in groups]:
        known = {name for group in groups for name in group}
        there = {name for group in before for name in group}
        odd = sorted(known ^ there) or ["their grouping"]
        raise DataError(
            f"the checkpoint's optimiser has {len(there)} parameters, expected {len(known)}; they differ in "
            f"{', '.join(odd[:3])}: resume with the model and parameter groups that were saved"
        )
    index_of = {name: index for index, name in enumerate(name for group in groups for name in group)}
    parameters = [value for group in optimizer.param_groups for value in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for full, value in tensors.items():
        name, _, key = full.rpartition(_SEPARATOR)
        index = index_of[name]
        state.setdefault(index, {})[key] = place_like(value, parameters[index])
    for name, entries in saved["scalars"].items():
        state.setdefault(index_of[name], {}).update(entries)
    current = optimizer.state_dict()["param_groups"]
    options = [
        {
            **{key: decode(value) for key, value in group["options"].items()},
            "params": now["params"],
            **({"param_names": now["param_names"]} if "param_names" in now else {}),
        }
        for group, now in zip(saved["groups"], current, strict=True)
    ]
    optimizer.load_state_dict({"state": state, "param_groups": options})


def _group_names(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]]
) -> list[list[str]]:
    """Return the names of each parameter group, in the order in which state dicts number them."""
    names = {id(value): name for name, value in named_parameters}
    found = []
    for group in optimizer.param_groups:
        unnamed = [value for value in group["params"] if id(value) not in names]
        if unnamed:
            raise ConfigError(
                f"the optimiser holds a parameter of shape {tuple(unnamed[0].shape)} that the model does not "
                "have; save it with the model it trains"
            )
        found.append([names[id(value)] for value in group["params"]])
    return found

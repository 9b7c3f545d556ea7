"""Tensors that are spread over processes (FSDP2): the whole of one, and the part of a whole that one holds."""

from __future__ import annotations

import torch


def whole(value: torch.Tensor) -> torch.Tensor:
    """Return the whole tensor; of a sharded one it is gathered, which every rank has to take part in."""
    gathered: torch.Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return gathered


def place_like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of `value` where `parameter` is sharded (FSDP2) and of its shape, else `value`."""
    if not hasattr(parameter, "device_mesh") or value.shape != parameter.shape:
        return value
    from torch.distributed.tensor import distribute_tensor  # slow to import

    # Every rank holds the whole value, so nothing has to be sent.
    mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
    return distribute_tensor(value.to(parameter.device), mesh, placements, src_data_rank=None)

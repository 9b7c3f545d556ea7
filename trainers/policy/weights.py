"""Checksums of weights, and weights in a file that another process reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainers.run.shards import whole


def weights_checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return a blake2b digest (32 hex digits) of names, dtypes, shapes and bytes.

    The order of names is fixed, so equal weights have equal checksums on every machine and device.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        flat = whole(value).detach().to("cpu").contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_weights(model: Any, path: Path) -> str:
    """Write all weights of a model into one safetensors file, tied ones under each of their names.

    Returns:
        The checksum of what was written, which equals `weights_checksum` of the file's tensors.
    """
    from safetensors.torch import save_file

    tensors = {name: value.detach().to("cpu").contiguous() for name, value in model.state_dict().items()}
    seen: set[int] = set()
    for name, value in tensors.items():
        place = value.data_ptr()
        tensors[name] = value.clone() if place in seen else value  # a file holds no shared tensors
        seen.add(place)
    save_file(tensors, str(path))
    return weights_checksum(tensors)

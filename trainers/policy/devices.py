"""Devices and dtypes by name, and what torch does on them."""

from __future__ import annotations

import os

import torch

from agent_gym.support.checks import check_choice
from agent_gym.support.errors import ConfigError
from trainers.settings.run import RunSettings


def resolve_device(name: str) -> torch.device:
    """Return the device for "auto" (CUDA, else MPS, else CPU) or any name torch knows.

    Raises:
        ConfigError: The name is unknown or the device is not present.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be auto, cpu, cuda, cuda:N or mps, got {name!r}") from error
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present.get(device.type, True):
        raise ConfigError(f"device {name!r} is not available here; use device='auto' or 'cpu'")
    return device


def resolve_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of "float32", "bfloat16", "float16" or "float64".

    Raises:
        ConfigError: Another name.
    """
    known = {
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "float64": torch.float64,
    }
    return check_choice("dtype", known, name)


def configure_torch(settings: RunSettings) -> None:
    """Set threads and determinism of this process as the settings ask; to be called before CUDA computes."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if not settings.deterministic:
        return
    # cuBLAS repeats its results with a workspace of fixed size only, which it reads when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if torch.cuda.is_available():
        # CPU kernels repeat as they are at one thread count; the switch itself is slow to import.
        torch.use_deterministic_algorithms(True, warn_only=True)

"""Seeds derived from names and numbers, equal on every machine and in every process.

Python's `hash()` differs between processes and `random` is shared by the whole program, so neither is used.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stable_hash(*parts: object, size: int = 8) -> str:
    """Return a hex digest of the parts' text (type-tagged, so `1` and `"1"` differ).

    Args:
        parts: Strings, numbers, None or tuples of them.
        size: Digest size in bytes.
    """
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        text = f"{type(part).__name__}:{part!r}"
        digest.update(f"{len(text)}:".encode())
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def derive_seed(*parts: object) -> int:
    """Return a seed in [0, 2**63) that depends on every part and on nothing else.

    Example: `derive_seed(run_seed, "evaluation", episode)` gives each evaluation episode a seed of its own.
    """
    return int(stable_hash(*parts), 16) >> 1


def generator(*parts: object) -> np.random.Generator:
    """Return a NumPy generator seeded by `derive_seed(*parts)`."""
    return np.random.Generator(np.random.PCG64(derive_seed(*parts)))

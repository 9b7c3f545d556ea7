"""A space of Unicode text that also works in Gymnasium's vector environments.

Gymnasium's `Text` has a fixed character set and its shared-memory form fails on characters outside ASCII,
so observations such as "café" end an `AsyncVectorEnv`. `UnicodeText` accepts every string up to a length and
brings its own shared-memory functions: UTF-8 bytes behind a length word, one fixed slot per environment.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, overload

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import (
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

_HEADER = 8  # bytes of the length word
_BYTES_PER_CHARACTER = 4  # the longest UTF-8 form
_SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEF 0123456789 .,:;!?-_'\"[]<>/\\\n\té√你🙂"


class UnicodeText(Space[str]):
    """All strings of at most `max_length` characters.

    Args:
        max_length: Greatest length in characters (code points).
        seed: Seed of `sample`.
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.max_length = max_length
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed-size array form."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Return a random string of 0 to 32 characters (or `max_length` if that is less)."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes no mask and no probability")
        length = int(self.np_random.integers(0, min(self.max_length, 32) + 1))
        picks = self.np_random.integers(0, len(_SAMPLE_ALPHABET), size=length)
        return "".join(_SAMPLE_ALPHABET[pick] for pick in picks)

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Return the strings as a list."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Return the list's items as strings."""
        return [str(item) for item in sample_n]

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash(("UnicodeText", self.max_length))


class SharedTexts(Sequence[str]):
    """Live view of the texts in shared memory; a deep copy is a plain tuple of strings.

    `AsyncVectorEnv` reads the memory once and hands out deep copies of what it read, hence a view that
    decodes when it is copied rather than when it is created.
    """

    def __init__(self, memory: Any, count: int, slot: int) -> None:
        self._memory = memory
        self._count = count
        self._slot = slot

    def __len__(self) -> int:
        return self._count

    def _read(self, index: int) -> str:
        raw = memoryview(self._memory.get_obj()).cast("B")
        start = index * self._slot
        size = int.from_bytes(raw[start : start + _HEADER], "little")
        return bytes(raw[start + _HEADER : start + _HEADER + size]).decode("utf-8", "surrogatepass")

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self._read(i) for i in range(*index.indices(self._count)))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._read(index % self._count)

    def __iter__(self) -> Iterator[str]:
        return (self._read(index) for index in range(self._count))

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


def _slot_size(space: UnicodeText) -> int:
    return _HEADER + _BYTES_PER_CHARACTER * space.max_length


@create_empty_array.register(UnicodeText)
def _create_empty_texts(space: UnicodeText, n: int = 1, fn: Any = np.zeros) -> tuple[str, ...]:
    return ("",) * n


@create_shared_memory.register(UnicodeText)
def _create_shared_texts(space: UnicodeText, n: int = 1, ctx: ModuleType = multiprocessing) -> Any:
    return ctx.Array("B", n * _slot_size(space))


@read_from_shared_memory.register(UnicodeText)
def _read_shared_texts(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n, _slot_size(space))


@write_to_shared_memory.register(UnicodeText)
def _write_shared_text(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    data = value.encode("utf-8", "surrogatepass")
    slot = _slot_size(space)
    if len(data) > slot - _HEADER:
        raise ValueError(f"text of {len(value)} characters exceeds the space's {space.max_length}")
    raw = memoryview(shared_memory.get_obj()).cast("B")
    start = index * slot
    raw[start : start + _HEADER] = len(data).to_bytes(_HEADER, "little")
    raw[start + _HEADER : start + _HEADER + len(data)] = data

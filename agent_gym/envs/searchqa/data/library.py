"""Generated worlds and their search indexes, made once per process and shared by all environments."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from agent_gym.envs.searchqa.data.generator import GeneratedWorld, WorldKey
from agent_gym.retrieval.base import Retriever

_MOST_PASSAGES = 100_000
"""Passages of all worlds kept; some 3 kilobytes each with index and tables."""

_worlds: OrderedDict[WorldKey, GeneratedWorld] = OrderedDict()
_retrievers: dict[WorldKey, Retriever] = {}
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):

    def _renew_lock() -> None:
        global _lock
        _lock = threading.RLock()  # another thread of the parent may have held it

    os.register_at_fork(after_in_child=_renew_lock)


def generated_world(key: WorldKey) -> GeneratedWorld:
    """Return a generated world; the ones used last are kept."""
    with _lock:
        world = _worlds.get(key)
        if world is None:
            world = _worlds[key] = GeneratedWorld(key)
            kept = sum(len(each.passages) for each in _worlds.values())
            while kept > _MOST_PASSAGES and len(_worlds) > 1:
                oldest, dropped = _worlds.popitem(last=False)
                _retrievers.pop(oldest, None)
                kept -= len(dropped.passages)
        else:
            _worlds.move_to_end(key)
        return world


def generated_retriever(key: WorldKey) -> Retriever:
    """Return the BM25 index, in memory, of a generated world."""
    with _lock:
        world = generated_world(key)
        found = _retrievers.get(key)
        if found is None:
            from agent_gym.retrieval.lexical.bm25 import MemoryBm25

            found = _retrievers[key] = MemoryBm25(world.passages)
        return found

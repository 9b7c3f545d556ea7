"""Text search shared by the environments: an interface, its backends, and index building.

from agent_gym.retrieval import MemoryBm25, Passage, open_retriever
retriever = open_retriever("wiki.index")          # or a corpus file, or a server's address
hits = retriever.search("who founded Rush", k=3)
for passage in retriever.passages(hits):
    ...
"""

from agent_gym.retrieval.base import (
    Hit,
    Passage,
    Retriever,
    RetrieverError,
    RetrieverResponseError,
    RetrieverUnavailableError,
    UnknownPassageError,
)
from agent_gym.retrieval.building import Stage, build_index
from agent_gym.retrieval.lexical.bm25 import Bm25Retriever, MemoryBm25
from agent_gym.retrieval.opening import RetrieverKind, open_index, open_retriever

__all__ = [
    "Bm25Retriever",
    "Hit",
    "MemoryBm25",
    "Passage",
    "Retriever",
    "RetrieverError",
    "RetrieverKind",
    "RetrieverResponseError",
    "RetrieverUnavailableError",
    "Stage",
    "UnknownPassageError",
    "build_index",
    "open_index",
    "open_retriever",
]

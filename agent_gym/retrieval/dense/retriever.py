"""Search by meaning: the passages whose vectors are nearest to the query's.

Up to `EXACT_UP_TO` passages the search is exact; above, faiss looks into the lists nearest to the query, which
finds about 98 of the 100 nearest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_gym.retrieval.base import Hit, Passage, Retriever, check_k
from agent_gym.retrieval.dense.embedding import DEFAULT_MODEL, EmbeddingModel, load_model
from agent_gym.retrieval.dense.vectors import (
    EXACT_UP_TO,
    FAISS,
    FOLDER,
    PROBES,
    import_faiss,
    read_dense,
    read_vectors,
)
from agent_gym.retrieval.lexical.bm25 import fingerprint_of
from agent_gym.retrieval.manifest import read_manifest
from agent_gym.retrieval.store import FilePassages
from agent_gym.support.errors import DataError

DECIMALS = 5


class DenseRetriever(Retriever):
    """Cosine similarity of embeddings.

    Args:
        folder: An index whose vectors are computed (`embed_index`).
        model: The embedding model they were computed with; the default one, or its folder.

    Raises:
        DataError: The index has no vectors, or they are of another model.
        ConfigError: The extra [search] or the model is not installed.
    """

    def __init__(self, folder: Path, model: str | Path | EmbeddingModel = DEFAULT_MODEL) -> None:
        self.folder = folder
        self._model_name = model.folder if isinstance(model, EmbeddingModel) else model
        self._manifest = read_dense(folder)
        self._model = model if isinstance(model, EmbeddingModel) else load_model(model)
        if self._model.name != self._manifest.model:
            raise DataError(
                f"the vectors in {folder} are of the model {self._manifest.model}, not of {self._model.name}; "
                "name that model, or compute them again: agent-gym index embed"
            )
        self._store = FilePassages(folder)
        exact = self._manifest.size <= EXACT_UP_TO
        self._nearest: _Exact | _Approximate
        if exact:
            self._nearest = _Exact(read_vectors(folder, self._manifest).astype(np.float32))
        else:
            self._nearest = _Approximate(folder / FOLDER / FAISS)
        ranking = f"dense/{self._manifest.model}/{self._manifest.passage_prefix}/{self._manifest.query_prefix}/"
        ranking += "exact" if exact else f"ivf-sq8-{PROBES}"
        self._fingerprint = fingerprint_of(read_manifest(folder).content, ranking)

    @property
    def size(self) -> int:
        """Number of passages."""
        return self._manifest.size

    @property
    def fingerprint(self) -> str:
        """Digest of the passages, the model and the search."""
        return self._fingerprint

    def passage(self, id: str) -> Passage:
        """Return a passage; raises UnknownPassageError."""
        return self._store[self._store.find(id)]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best hits of every query; see `Retriever.search_many`.

        A query without any letter or digit finds nothing, as in lexical search.
        """
        check_k(k)
        asked = [number for number, query in enumerate(queries) if any(c.isalnum() for c in query)]
        results: list[list[Hit]] = [[] for _ in queries]
        if not asked:
            return results
        vectors = self._model.embed([queries[number] for number in asked], self._manifest.query_prefix)
        for number, found in zip(asked, self._nearest.search(vectors, min(k, self.size)), strict=True):
            results[number] = [Hit(doc, self._store[doc].id, score) for doc, score in found]
        return results

    def __reduce__(self) -> tuple[Any, ...]:
        return open_dense, (str(self.folder), str(self._model_name))


class _Exact:
    """Nearest vectors by one matrix product; ties in corpus order."""

    def __init__(self, vectors: npt.NDArray[np.float32]) -> None:
        self._vectors = vectors

    def search(self, queries: npt.NDArray[np.float32], k: int) -> list[list[tuple[int, float]]]:
        results = []
        for query in queries:  # one at a time: a batch's sums differ in the last digits
            scores = np.round(self._vectors @ query, DECIMALS)
            kept = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
            order = kept[np.argsort(-scores[kept], kind="stable")][:k]
            results.append([(int(doc), round(float(scores[doc]), DECIMALS)) for doc in order])
        return results


class _Approximate:
    """Nearest vectors by a mapped faiss index."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        self._faiss = import_faiss()
        try:
            self._index = self._faiss.read_index(str(self._path), self._faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            raise DataError(f"no faiss index at {self._path}: {error}. Compute the vectors again.") from error
        self._faiss.extract_index_ivf(self._index).nprobe = PROBES
        self._process = os.getpid()

    def search(self, queries: npt.NDArray[np.float32], k: int) -> list[list[tuple[int, float]]]:
        if os.getpid() != self._process:
            self._open()
        self._faiss.omp_set_num_threads(1)  # its threads would not survive a fork; callers have their own
        results = []
        for query in queries:
            scores, docs = self._index.search(query[None], k)
            found = [(int(doc), round(float(s), DECIMALS)) for s, doc in zip(scores[0], docs[0], strict=True)]
            results.append(sorted((f for f in found if f[0] >= 0), key=lambda item: (-item[1], item[0])))
        return results


_opened: dict[tuple[str, str, str], DenseRetriever] = {}
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):

    def _renew_lock() -> None:
        global _lock
        _lock = threading.Lock()

    os.register_at_fork(after_in_child=_renew_lock)


def open_dense(folder: str | Path, model: str | Path = DEFAULT_MODEL) -> DenseRetriever:
    """Return the dense retriever of an index, shared by all callers in this process; raises as its class does."""
    path = Path(folder).resolve()
    key = (str(path), read_manifest(path).content, str(model))
    with _lock:
        if key not in _opened:
            _opened[key] = DenseRetriever(path, model)
        return _opened[key]

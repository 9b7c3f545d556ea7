"""Opens retrievers by what users name: an index folder, a corpus file or a server's address.

An index is opened once per process, however many environments use it.
"""

from __future__ import annotations

import os
import threading
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from agent_gym.retrieval.base import Retriever
from agent_gym.retrieval.building import Progress, build_index
from agent_gym.retrieval.lexical.bm25 import Bm25Retriever
from agent_gym.retrieval.manifest import is_index, read_manifest
from agent_gym.support.data import resolve_data
from agent_gym.support.errors import DataError
from agent_gym.support.files import UnwritableError


class RetrieverKind(StrEnum):
    """How passages are ranked."""

    BM25 = "bm25"
    """By words."""
    DENSE = "dense"
    """By the similarity of embeddings."""
    HYBRID = "hybrid"
    """By both, fused by reciprocal rank."""


CACHE_VARIABLE = "AGENT_GYM_CACHE"
"""Environment variable with the folder of built indexes; `agent-gym` in the user's cache folder otherwise."""

_open: dict[tuple[str, str], Bm25Retriever] = {}
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):

    def _renew_lock() -> None:
        global _lock
        _lock = threading.Lock()  # another thread of the parent may have held it

    os.register_at_fork(after_in_child=_renew_lock)


def open_index(folder: str | Path) -> Bm25Retriever:
    """Return the retriever of an index folder, shared by all callers in this process.

    Raises:
        DataError: The folder holds no complete index.
    """
    path = Path(folder).resolve()
    manifest = read_manifest(path)
    key = (str(path), manifest.fingerprint)
    with _lock:
        if key not in _open:
            _open[key] = Bm25Retriever(path, manifest.fingerprint)
        return _open[key]


def open_retriever(
    source: str | Path, kind: RetrieverKind = RetrieverKind.BM25, *, on_progress: Progress | None = None
) -> Retriever:
    """Return the retriever that a name stands for.

    Args:
        source: An index folder; a corpus file, whose index is built once into the user's cache and reused; or
            the address of a Search-R1-compatible server (`http://...`), which ranks as it likes. Relative names
            are also looked up in the folder that `AGENT_GYM_DATA` names.
        kind: Ranking of an index or corpus; dense and hybrid need an index with vectors (`agent-gym index embed`).
        on_progress: Told about the building of an index.

    Raises:
        DataError: There is no such index or corpus, or it is damaged, or it has no vectors.
        ConfigError: The address is malformed, or the kind needs the extra [search].
    """
    kind = RetrieverKind(kind)
    if isinstance(source, str) and "://" in source:
        from agent_gym.retrieval.service.remote import RemoteRetriever

        return RemoteRetriever(source)
    path = resolve_data(source, "an index folder (agent-gym index build), or a corpus as JSON lines")
    if path.is_file():
        corpus, path = path, cached_index(path)
        if not is_index(path):
            try:
                build_index(corpus, path, wait=True, on_progress=on_progress)
            except UnwritableError as error:
                raise DataError(f"{error} with {CACHE_VARIABLE}") from error
    lexical = open_index(path)
    if kind is RetrieverKind.BM25:
        return lexical
    from agent_gym.retrieval.dense.retriever import open_dense
    from agent_gym.retrieval.hybrid import HybridRetriever

    dense = open_dense(path)
    return dense if kind is RetrieverKind.DENSE else HybridRetriever([lexical, dense])


def cached_index(corpus: Path) -> Path:
    """Return the cache folder of a corpus file's index; another state of the file has another folder."""
    status = corpus.stat()
    name = f"{corpus.resolve()} {status.st_size} {status.st_mtime_ns}"
    return cache_folder() / "indexes" / f"{corpus.name.partition('.')[0]}-{sha256(name.encode()).hexdigest()[:16]}"


def cache_folder() -> Path:
    """Return the folder for what can be made again."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agent-gym"

"""Vectors of an index's passages: computed once, kept beside the index, resumable.

`INDEX/dense` holds the vectors as float16 (the cache, in corpus order), a faiss index when there are many, and a
manifest of its own, written last. `INDEX/dense.partial` is a computation in progress.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agent_gym.retrieval.dense.embedding import EmbeddingModel
from agent_gym.retrieval.manifest import FileRecord, describe_files, read_manifest
from agent_gym.retrieval.store import FilePassages
from agent_gym.support.errors import ConfigError, DataError

FOLDER = "dense"
VECTORS = "vectors.f16"
FAISS = "vectors.faiss"
MANIFEST = "dense.json"
EXACT_UP_TO = 20_000
"""Corpora of up to this size are searched exactly with numpy; larger ones approximately with faiss."""

PROBES = 32
_BATCH = 256
_TRAINING_PER_LIST = 64


@dataclass(frozen=True, slots=True)
class DenseManifest:
    """Contents of `dense.json`.

    Attributes:
        model: Name and weight digest of the embedding model.
        query_prefix: Put before queries.
        passage_prefix: Put before passages.
        size: Number of vectors.
        dim: Length of a vector.
        content: SHA-256 of the passages they were computed from.
        files: The other files of the folder.
    """

    model: str
    query_prefix: str
    passage_prefix: str
    size: int
    dim: int
    content: str
    files: dict[str, FileRecord]


def embed_index(
    index: Path,
    model: EmbeddingModel,
    *,
    query_prefix: str = "",
    passage_prefix: str = "",
    on_progress: Callable[[int, int], None] | None = None,
) -> DenseManifest:
    """Compute the vectors of an index's passages, or go on with an interrupted computation.

    Args:
        index: Folder of a complete index.
        model: The embedding model. Vectors of another model are replaced.
        query_prefix: To put before queries ("query: " for E5).
        passage_prefix: To put before passages ("passage: " for E5).
        on_progress: Told how many passages of how many are done.

    Returns:
        The manifest; vectors that are already there are left as they are.

    Raises:
        DataError: There is no complete index.
        ConfigError: There are many passages and faiss is not installed.
    """
    content = read_manifest(index).content
    passages = FilePassages(index)
    target, partial = index / FOLDER, index / f"{FOLDER}.partial"
    wanted = {
        "model": model.name,
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
        "content": content,
    }
    if (target / MANIFEST).is_file():
        found = read_dense(index)
        if all(getattr(found, name) == value for name, value in wanted.items()):
            return found
    if len(passages) > EXACT_UP_TO:
        import_faiss()
    settings = partial / "settings.json"
    if not settings.is_file() or json.loads(settings.read_text("utf-8")) != wanted:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        settings.write_text(json.dumps(wanted), "utf-8")
    _compute(passages, model, passage_prefix, partial / VECTORS, on_progress or (lambda done, total: None))
    if len(passages) > EXACT_UP_TO:
        _write_faiss(_read(partial / VECTORS, model.dim), partial / FAISS)
    settings.unlink()
    manifest = DenseManifest(
        model=model.name,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        size=len(passages),
        dim=model.dim,
        content=content,
        files=describe_files(partial),
    )
    (partial / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1) + "\n", "utf-8")
    if target.exists():
        shutil.rmtree(target)
    partial.rename(target)
    return manifest


def read_dense(index: Path) -> DenseManifest:
    """Return the manifest of an index's vectors.

    Raises:
        DataError: The index has no vectors, or they belong to other passages.
    """
    path = index / FOLDER / MANIFEST
    if not path.is_file():
        raise DataError(f"the index {index} has no vectors; compute them: agent-gym index embed {index}")
    try:
        values = json.loads(path.read_text("utf-8"))
        files = {name: FileRecord(**record) for name, record in values.pop("files").items()}
        manifest = DenseManifest(files=files, **values)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no manifest of vectors: {error!r}. Compute them again.") from error
    if manifest.content != read_manifest(index).content:
        raise DataError(f"the vectors in {index} belong to other passages; compute them again")
    return manifest


def read_vectors(index: Path, manifest: DenseManifest) -> npt.NDArray[np.float16]:
    """Return the vectors of an index, mapped into memory, shape (passages, dim)."""
    vectors = _read(index / FOLDER / VECTORS, manifest.dim)
    if len(vectors) != manifest.size:
        raise DataError(f"{index} has {len(vectors)} vectors for {manifest.size} passages; compute them again")
    return vectors


def import_faiss() -> Any:
    """Return the faiss module; raises ConfigError when it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            f"vectors of more than {EXACT_UP_TO} passages need faiss: pip install 'agent-gym[search]'"
        ) from error
    return faiss


def _compute(
    passages: FilePassages, model: EmbeddingModel, prefix: str, path: Path, report: Callable[[int, int], None]
) -> None:
    row_bytes = 2 * model.dim
    with path.open("ab") as stream:
        done = stream.tell() // row_bytes
        stream.truncate(done * row_bytes)  # a torn row of an interrupted computation
        report(done, len(passages))
        while done < len(passages):
            stop = min(done + _BATCH, len(passages))
            texts = [passages[doc] for doc in range(done, stop)]
            vectors = model.embed([passage.contents for passage in texts], prefix)
            stream.write(vectors.astype(np.float16).tobytes())
            stream.flush()
            done = stop
            report(done, len(passages))


def _write_faiss(vectors: npt.NDArray[np.float16], path: Path) -> None:
    """Write an inverted-file index with 8-bit vectors; equal vectors give equal files."""
    faiss = import_faiss()
    faiss.omp_set_num_threads(1)
    size, dim = vectors.shape
    lists = min(int(4 * size**0.5), size // 40)
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFScalarQuantizer(
        quantizer, dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    step = max(1, size // (_TRAINING_PER_LIST * lists))
    index.train(np.ascontiguousarray(vectors[::step], dtype=np.float32))
    for start in range(0, size, 1 << 16):
        index.add(np.ascontiguousarray(vectors[start : start + (1 << 16)], dtype=np.float32))
    faiss.write_index(index, str(path))


def _read(path: Path, dim: int) -> npt.NDArray[np.float16]:
    try:
        return np.memmap(path, dtype=np.float16, mode="r").reshape(-1, dim)
    except (OSError, ValueError) as error:
        raise DataError(f"no vectors at {path}: {error}. Compute them again.") from error

"""Builds an index from a corpus file: streamed, resumable, and visible only when it is whole.

Work goes on in `INDEX.partial` beside the target; an interrupted build continues from its last checkpoint, and
the folder is renamed when its manifest is written. Passages are never held in memory together.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from agent_gym.retrieval.corpus import CorpusReader
from agent_gym.retrieval.lexical.bm25 import (
    INDEX_FOLDER,
    add_passages,
    create_tantivy,
    fingerprint_of,
    ranking_name,
    remove_leftovers,
)
from agent_gym.retrieval.manifest import Manifest, describe_files, is_index, read_manifest
from agent_gym.retrieval.store import OFFSETS, ROWS, WORD, FilePassages, digest, encode_row, write_ids
from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.files import unwritable
from agent_gym.support.locks import exclusive

_DIGESTS = "passages.digests"
_PROGRESS = "progress.json"
CHECKPOINT_ROWS = 100_000


class Stage(StrEnum):
    """Parts of a build, in order."""

    PASSAGES = "passages"
    """Copying passages; progress counts bytes of the corpus file."""
    WORDS = "words"
    """Indexing words; progress counts passages."""
    HASHES = "hashes"
    """Hashing the files; progress counts steps."""


Progress = Callable[[Stage, int, int], None]
"""Told the stage, what is done and the total."""


def build_index(
    corpus: Path,
    index: Path,
    *,
    overwrite: bool = False,
    wait: bool = False,
    checkpoint_rows: int = CHECKPOINT_ROWS,
    on_progress: Progress | None = None,
) -> Manifest:
    """Build the index of a corpus, or go on with an interrupted build.

    Args:
        corpus: JSON lines, plain, `.gz` or `.xz`; see `agent_gym.retrieval.corpus`.
        index: Folder to make.
        overwrite: Replace an index of another corpus.
        wait: When another process builds this index, wait for it instead of raising.
        checkpoint_rows: Passages between two points from which a build can go on.
        on_progress: Called at every checkpoint.

    Returns:
        The manifest. An index that is already built from this very file is left as it is.

    Raises:
        ConfigError: The folder exists and is another index (without `overwrite`) or no index at all.
        DataError: The corpus holds a bad row, two equal ids or nothing, or the place cannot be written to.
        BusyError: Another process is building this index.
    """
    reader = CorpusReader(corpus)
    source = _describe_source(corpus)
    report = on_progress or (lambda stage, done, total: None)
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(_beside(index, "lock"), f"{index} is being built", wait=wait):
            built = _existing(index, source, overwrite)
            if built is None:
                built = _build(reader, source, index, checkpoint_rows, report)
    except OSError as error:
        if error.filename == str(corpus):
            raise
        raise unwritable(index / ROWS, error) from error
    return built


def _build(
    reader: CorpusReader, source: dict[str, Any], index: Path, checkpoint_rows: int, report: Progress
) -> Manifest:
    """Build beside the index and put the result in its place; what a bad corpus leaves is removed."""
    partial = _beside(index, "partial")
    partial.mkdir(exist_ok=True)
    if _read_progress(partial).get("source") != source:
        shutil.rmtree(partial)
        partial.mkdir()
        _write_progress(partial, {"source": source, "rows": 0})
    try:
        _copy_passages(reader, partial, checkpoint_rows, report)
        _index_words(partial, checkpoint_rows, report)
        built = _finish(reader.path, source, partial, report)
    except DataError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _exchange(partial, index)
    return built


def _existing(index: Path, source: dict[str, Any], overwrite: bool) -> Manifest | None:
    """Return the manifest of an index of this very file, None when there is one to build."""
    if not index.exists() or (index.is_dir() and not any(index.iterdir())):
        return None
    if not is_index(index):
        raise ConfigError(f"{index} exists and is no index; name a folder that does not exist")
    try:
        manifest = read_manifest(index)
    except DataError:
        if not overwrite:
            raise
        return None
    if manifest.source == source:
        return manifest
    if not overwrite:
        raise ConfigError(
            f"{index} is the index of another or an older {manifest.corpus} ({manifest.size} passages); "
            "give --overwrite to replace it"
        )
    return None


def _copy_passages(reader: CorpusReader, folder: Path, checkpoint_rows: int, report: Progress) -> None:
    progress = _read_progress(folder)
    if progress.get("copied"):
        return
    rows = int(progress["rows"])
    with (
        _open_at(folder / OFFSETS, 8 * (rows + 1)) as offsets,
        _open_at(folder / _DIGESTS, 8 * rows) as digests,
    ):
        end = int(np.fromfile(folder / OFFSETS, WORD)[rows]) if rows else 0
        with _open_at(folder / ROWS, end) as stream:
            if not rows:
                offsets.seek(0)
                offsets.write(bytes(8))
            for passage in reader.passages(rows):
                end += stream.write(encode_row(passage))
                offsets.write(end.to_bytes(8, "little"))
                digests.write(digest(passage.id).to_bytes(8, "little"))
                rows += 1
                if rows % checkpoint_rows == 0:
                    for file in (stream, offsets, digests):
                        file.flush()
                    _write_progress(folder, {**progress, "rows": rows})
                    report(Stage.PASSAGES, reader.bytes_read, reader.size)
    if not rows:
        raise DataError(f"{reader.path} holds no passage")
    write_ids(folder, np.fromfile(folder / _DIGESTS, WORD))
    report(Stage.PASSAGES, reader.size, reader.size)
    _write_progress(folder, {**progress, "rows": rows, "copied": True})


def _index_words(folder: Path, checkpoint_rows: int, report: Progress) -> None:
    store = FilePassages(folder)
    (folder / INDEX_FOLDER).mkdir(exist_ok=True)
    index = create_tantivy(folder / INDEX_FOLDER)
    done = index.searcher().num_docs
    while done < len(store):
        stop = min(done + checkpoint_rows, len(store))
        add_passages(index, store, done, stop)
        done = stop
        report(Stage.WORDS, done, len(store))
    remove_leftovers(index)


def _finish(corpus: Path, source: dict[str, Any], folder: Path, report: Progress) -> Manifest:
    from importlib.metadata import version

    report(Stage.HASHES, 0, 1)
    files = {name: record for name, record in describe_files(folder).items() if name not in (_DIGESTS, _PROGRESS)}
    content = files[ROWS].sha256
    manifest = Manifest(
        size=len(FilePassages(folder)),
        corpus=corpus.name,
        source=source,
        content=content,
        ranking=ranking_name(),
        fingerprint=fingerprint_of(content, ranking_name()),
        tantivy=version("tantivy"),
        files=files,
    )
    manifest.write(folder)
    for name in (_DIGESTS, _PROGRESS):
        (folder / name).unlink(missing_ok=True)
    report(Stage.HASHES, 1, 1)
    return manifest


def _exchange(partial: Path, index: Path) -> None:
    """Put a finished folder in the place of an index, which may exist."""
    old = _beside(index, "old")
    if index.exists():
        if old.exists():
            shutil.rmtree(old)
        index.rename(old)
    partial.rename(index)
    if old.exists():
        shutil.rmtree(old)


@contextlib.contextmanager
def _open_at(path: Path, length: int) -> Iterator[Any]:
    """Open a file for writing on from `length`, dropping what an interrupted build wrote after it."""
    with path.open("r+b" if path.exists() else "w+b") as stream:
        stream.truncate(length)
        stream.seek(length)
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def _describe_source(corpus: Path) -> dict[str, Any]:
    """Tell one state of a corpus file from another by its size, time and first block."""
    status = corpus.stat()
    with corpus.open("rb") as stream:
        head = sha256(stream.read(1 << 16)).hexdigest()
    return {"bytes": status.st_size, "modified": status.st_mtime_ns, "head": head, "ranking": ranking_name()}


def _beside(index: Path, suffix: str) -> Path:
    return index.with_name(f"{index.name}.{suffix}")


def _read_progress(folder: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads((folder / _PROGRESS).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return values


def _write_progress(folder: Path, values: dict[str, Any]) -> None:
    temporary = folder / f"{_PROGRESS}.new"
    temporary.write_text(json.dumps(values), "utf-8")
    temporary.replace(folder / _PROGRESS)

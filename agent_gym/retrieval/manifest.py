"""What an index folder says about itself; a folder without a manifest is no index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_gym.support.errors import DataError

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Size in bytes and SHA-256 of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of `manifest.json`.

    Attributes:
        size: Number of passages.
        corpus: Name of the corpus file, for people.
        content: SHA-256 of the stored passages.
        ranking: Name of the ranking rules.
        fingerprint: Digest of `content` and `ranking`.
        tantivy: Version that wrote the index.
        source: What the corpus file looked like; another state of it is another corpus.
        files: Every other file of the folder.
        format: Version of this form.
    """

    size: int
    corpus: str
    content: str
    ranking: str
    fingerprint: str
    tantivy: str
    source: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder, whole or not at all."""
        temporary = folder / f"{MANIFEST}.new"
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
        temporary.replace(folder / MANIFEST)


def is_index(folder: Path) -> bool:
    """Tell whether a folder holds a complete index."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an index.

    Raises:
        DataError: The folder holds no complete index, or one of another format.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"no index at {folder}: it has no {MANIFEST}. Build one: agent-gym index build CORPUS {folder}"
        )
    try:
        values = json.loads(path.read_text("utf-8"))
        if values["format"] != FORMAT:
            raise DataError(
                f"the index at {folder} has format {values['format']}; this version reads format {FORMAT}. "
                "Build it again."
            )
        files = {name: FileRecord(**record) for name, record in values.pop("files").items()}
        return Manifest(files=files, **values)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is no manifest of an index: {error!r}. Build the index again.") from error


def describe_files(folder: Path) -> dict[str, FileRecord]:
    """Return the record of every file below a folder, except its manifest, by relative name."""
    return {
        path.relative_to(folder).as_posix(): FileRecord(path.stat().st_size, file_digest(path))
        for path in _files(folder)
    }


def damaged_files(folder: Path, files: Mapping[str, FileRecord]) -> list[str]:
    """Return the names of files that are missing or differ from their records."""
    bad = []
    for name, record in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != record.bytes or file_digest(path) != record.sha256:
            bad.append(name)
    return bad


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    content = sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith(".lock") and path.name != MANIFEST:
            yield path

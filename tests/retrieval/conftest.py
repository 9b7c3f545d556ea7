"""A small corpus and its index, built once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_gym.retrieval import Bm25Retriever, MemoryBm25, Passage, build_index, open_index

TOPICS = ("river", "mountain", "painter", "engine", "orchestra", "harbour", "castle")


def make_passages(count: int) -> list[Passage]:
    """Return passages of which the n-th alone names `item n`, and groups share topics and exact texts."""
    rows = []
    for number in range(count):
        topic = TOPICS[number % len(TOPICS)]
        text = f"A {topic} known as item{number}." if number % 5 else f"The same {topic} text again."
        rows.append(Passage(f"p{number}", f"{topic.title()} {number}", text))
    return rows


def write_corpus(path: Path, passages: list[Passage]) -> Path:
    """Write passages in the wiki-18 row form."""
    lines = [json.dumps({"id": p.id, "contents": p.contents}, ensure_ascii=False) for p in passages]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def passages() -> list[Passage]:
    return make_passages(300)


@pytest.fixture(scope="session")
def corpus_file(passages: list[Passage], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", passages)


@pytest.fixture(scope="session")
def index_folder(corpus_file: Path) -> Path:
    folder = corpus_file.parent / "corpus.index"
    build_index(corpus_file, folder)
    return folder


@pytest.fixture(scope="session")
def on_disk(index_folder: Path) -> Bm25Retriever:
    return open_index(index_folder)


@pytest.fixture(scope="session")
def in_memory(passages: list[Passage]) -> MemoryBm25:
    return MemoryBm25(passages)

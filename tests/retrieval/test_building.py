"""Index building: formats, interruption, half and damaged indexes."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.retrieval import Passage, Stage, build_index, open_index, open_retriever
from agent_gym.retrieval.corpus import CorpusReader, row_passage
from agent_gym.retrieval.manifest import damaged_files, read_manifest
from agent_gym.retrieval.opening import CACHE_VARIABLE
from agent_gym.support.errors import ConfigError, DataError
from tests.data import shared_data
from tests.retrieval.conftest import make_passages, write_corpus


class StoppedError(Exception):
    """Stands for a kill in the middle of a build."""


def build_until(corpus: Path, index: Path, stage: Stage, call: int) -> None:
    """Build, and break off at the n-th report of a stage."""
    calls = 0

    def stop(reached: Stage, done: int, total: int) -> None:
        nonlocal calls
        calls += reached is stage
        if calls == call:
            raise StoppedError

    with pytest.raises(StoppedError):
        build_index(corpus, index, checkpoint_rows=40, on_progress=stop)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.xz"])
def test_compressed_corpora_give_the_same_index(
    suffix: str, corpus_file: Path, index_folder: Path, tmp_path: Path
) -> None:
    content = corpus_file.read_bytes()
    packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(suffix).suffix, bytes)(content)
    corpus = tmp_path / f"corpus{suffix}"
    corpus.write_bytes(packed)
    manifest = build_index(corpus, tmp_path / "index")
    assert manifest.size == 300
    assert manifest.fingerprint == read_manifest(index_folder).fingerprint


@pytest.mark.parametrize(
    ("stage", "call"),
    [(Stage.PASSAGES, 1), (Stage.PASSAGES, 5), (Stage.WORDS, 1), (Stage.WORDS, 6), (Stage.HASHES, 1)],
)
def test_an_interrupted_build_goes_on(
    stage: Stage, call: int, corpus_file: Path, index_folder: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    build_until(corpus_file, index, stage, call)
    assert not index.exists()
    with pytest.raises(DataError, match=r"no manifest\.json"):
        open_index(tmp_path / "index.partial")
    reported: list[tuple[Stage, int]] = []
    manifest = build_index(
        corpus_file, index, checkpoint_rows=40, on_progress=lambda *args: reported.append(args[:2])
    )
    copied = [done for reached, done in reported if reached is Stage.PASSAGES]
    indexed = [done for reached, done in reported if reached is Stage.WORDS]
    if stage is not Stage.PASSAGES:
        assert copied == []
        assert len(indexed) == 8 - (call if stage is Stage.WORDS else 8)
    else:
        assert len(copied) == 8 - call
    assert manifest.fingerprint == read_manifest(index_folder).fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
    again = open_index(index)
    assert again.search("castle item6", 9) == open_index(index_folder).search("castle item6", 9)


def test_a_build_that_a_bad_corpus_ends_leaves_nothing(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", make_passages(3))
    corpus.write_text(corpus.read_text("utf-8") + "no row\n", "utf-8")
    with pytest.raises(DataError, match="line 4"):
        build_index(corpus, tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_a_place_that_cannot_be_written_to_is_named_with_the_remedy(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write .*/file/index/.*give another place$"):
        build_index(corpus_file, tmp_path / "file" / "index")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(DataError, match=rf"cannot write .*/file/.*give another place with {CACHE_VARIABLE}"):
        open_retriever(corpus_file)


def test_rows_written_after_the_last_checkpoint_are_dropped(corpus_file: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_until(corpus_file, index, Stage.PASSAGES, 2)
    for name in ("passages.jsonl", "passages.offsets", "passages.digests"):
        with (tmp_path / "index.partial" / name).open("ab") as stream:
            stream.write(b"torn row")
    manifest = build_index(corpus_file, index)
    assert manifest.size == 300 and damaged_files(index, manifest.files) == []


def test_a_changed_corpus_starts_an_interrupted_build_anew(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", make_passages(100))
    build_until(corpus, tmp_path / "index", Stage.WORDS, 1)
    write_corpus(corpus, make_passages(90)[::-1])
    build_index(corpus, tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    assert retriever.size == 90 and retriever.search("item89", 1)[0].doc == 0


def test_a_built_index_is_left_alone_and_another_is_not_replaced_by_mistake(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", make_passages(20))
    first = build_index(corpus, tmp_path / "index")
    reports: list[Any] = []
    assert build_index(corpus, tmp_path / "index", on_progress=lambda *args: reports.append(args)) == first
    assert reports == []
    other = write_corpus(tmp_path / "other.jsonl", make_passages(30))
    with pytest.raises(ConfigError, match="--overwrite"):
        build_index(other, tmp_path / "index")
    assert build_index(other, tmp_path / "index", overwrite=True).size == 30
    assert open_index(tmp_path / "index").size == 30


def test_a_folder_of_something_else_is_never_replaced(corpus_file: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="is no index"):
        build_index(corpus_file, tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "dear"


def test_damage_is_found(corpus_file: Path, tmp_path: Path) -> None:
    manifest = build_index(corpus_file, tmp_path / "index")
    assert damaged_files(tmp_path / "index", manifest.files) == []
    rows = tmp_path / "index" / "passages.jsonl"
    content = bytearray(rows.read_bytes())
    content[100] ^= 1
    rows.write_bytes(content)
    assert damaged_files(tmp_path / "index", manifest.files) == ["passages.jsonl"]
    rows.write_bytes(content[:-5])
    with pytest.raises(DataError, match="do not fit"):
        open_index(tmp_path / "index")


def test_equal_ids_are_named_with_their_rows(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", [*make_passages(9), Passage("p4", "x", "y")])
    with pytest.raises(DataError, match="'p4' is the id of rows 5 and 10"):
        build_index(corpus, tmp_path / "index")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "expected a JSON object, got list"),
        ("{oops", "expected a JSON object"),
        ('{"id": null, "text": "a"}', '"id"'),
        ('{"id": 1, "body": "a"}', r"keys \['body', 'id'\]"),
        ("[" * 100_000, "expected a JSON object"),
    ],
)
def test_bad_rows_are_named_by_line(line: str, message: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": 0, "text": "fine"}\n\n' + line + "\n")
    with pytest.raises(DataError, match="line 3.*" + message):
        list(CorpusReader(corpus))


def test_a_torn_compressed_corpus_is_an_error(corpus_file: Path, tmp_path: Path) -> None:
    for suffix, pack in ((".gz", gzip.compress), (".xz", lzma.compress)):
        corpus = tmp_path / f"corpus.jsonl{suffix}"
        corpus.write_bytes(pack(corpus_file.read_bytes())[:-40])
        with pytest.raises(DataError, match="cannot be decompressed"):
            build_index(corpus, tmp_path / "index")


def test_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no passage"):
        build_index(tmp_path / "corpus.jsonl", tmp_path / "index")


@given(st.text(), st.text(st.characters(codec="utf-8", exclude_characters="\n")), st.text())
@settings(max_examples=60, deadline=None)
def test_rows_survive_both_forms(id: str, title: str, text: str) -> None:
    passage = Passage(id, title, text)
    assert row_passage(json.loads(json.dumps({"id": id, "contents": passage.contents})), "here", 0) == passage
    assert row_passage(json.loads(json.dumps({"_id": id, "title": title, "text": text})), "here", 0) == passage


def test_lone_surrogates_become_question_marks() -> None:
    row = json.loads('{"id": "\\ud800", "title": "", "text": "a\\udfffb"}')
    assert row_passage(row, "here", 0) == Passage("?", "", "a?b")


def test_a_corpus_file_is_indexed_once_in_the_cache(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    reports: list[Any] = []
    first = open_retriever(corpus_file, on_progress=lambda *args: reports.append(args))
    assert reports and first.size == 300
    assert open_retriever(corpus_file, on_progress=lambda *args: pytest.fail("built again")) is first


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="agent-gym index build"):
        open_retriever(tmp_path / "nothing")


def test_real_passages_come_back(tmp_path: Path) -> None:
    corpus = shared_data("searchqa/wiki_passages.jsonl.xz")
    manifest = build_index(corpus, tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    assert manifest.size == retriever.size == 17_588
    hits = retriever.search("Which Canadian rock band had the drummer Neil Peart?", 3)
    assert "Neil Peart" in [passage.title for passage in retriever.passages(hits)]

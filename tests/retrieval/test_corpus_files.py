"""Passage files as they are published, restated, and files that are none."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from agent_gym.retrieval.base import Passage
from agent_gym.retrieval.building import build_index
from agent_gym.retrieval.corpus import CorpusReader
from agent_gym.retrieval.opening import open_index
from agent_gym.support.errors import DataError

TWO = [Passage("1", "Blue Door", 'A "blue" door, in Sobi.'), Passage("2", "Sobi", "A town; it has doors.")]
BEIR = [{"_id": one.id, "title": one.title, "text": one.text, "metadata": {}} for one in TWO]
BARE = [{"title": one.title, "text": one.text} for one in TWO]
NUMBERED = [Passage("0", TWO[0].title, TWO[0].text), Passage("1", TWO[1].title, TWO[1].text)]
UNTITLED = [Passage(one.id, "", one.text) for one in TWO]


def lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


DPR = b'id\ttext\ttitle\n1\t"A ""blue"" door, in Sobi."\tBlue Door\n2\tA town; it has doors.\tSobi\n'
UNQUOTED = b'id\ttext\ttitle\n1\tA "blue" door, in Sobi.\tBlue Door\n2\tA town; it has doors.\tSobi\n'
FORMS: dict[str, tuple[bytes, list[Passage]]] = {
    "wiki.jsonl": (lines([{"id": one.id, "contents": one.contents} for one in TWO]), TWO),
    "beir.jsonl.xz": (lzma.compress(lines(BEIR)), TWO),
    "beir.json": (lines(BEIR), TWO),
    "list.jsonl": (json.dumps(BEIR, indent=1).encode(), TWO),
    "around.json": (json.dumps({"documents": BEIR}).encode(), TWO),
    "psgs_w100.tsv": (DPR, TWO),
    "psgs_w100.tsv.gz": (gzip.compress(DPR), TWO),
    "unquoted.tsv": (UNQUOTED, TWO),
    "collection.tsv": (b'1\tA "blue" door, in Sobi.\n2\tA town; it has doors.\n', UNTITLED),
    "mine.csv": (
        b'Title;Passage\nBlue Door;"A ""blue"" door, in Sobi."\nSobi;"A town; it has doors."\n',
        NUMBERED,
    ),
    "without-ids.jsonl": (lines(BARE), NUMBERED),
    "numbers.jsonl": (
        lines([{"ID": int(one["_id"]), "Title": one["title"], "Text": one["text"]} for one in BEIR]),
        TWO,
    ),
    "sentences.jsonl": (
        lines([{**row, "text": [[part] for part in str(row["text"]).split(" ")]} for row in BEIR]),
        TWO,
    ),
    "line-breaks.csv": (
        b'id,title,text\n1,Blue Door,"A door\nin, Sobi."\n2,Sobi,A town.\n',
        [Passage("1", "Blue Door", "A door\nin, Sobi."), Passage("2", "Sobi", "A town.")],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_passages_are_read_by_content_and_from_any_row_on(name: str, tmp_path: Path) -> None:
    content, passages = FORMS[name]
    (tmp_path / name).write_bytes(content)
    reader = CorpusReader(tmp_path / name)
    assert list(reader) == passages
    assert list(reader.passages(1)) == passages[1:]


@pytest.mark.parametrize("ids", [[1, 2], [1.0, 2.0], ["1", "2"]])
def test_passages_are_read_from_parquet(ids: list[object], tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rows = [
        {"id": id, "title": one.title, "text": one.text, "vector": [0.0]} for id, one in zip(ids, TWO, strict=True)
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "passages")
    assert list(CorpusReader(tmp_path / "passages")) == TWO


def test_a_table_becomes_an_index(tmp_path: Path) -> None:
    (tmp_path / "psgs.tsv").write_bytes(DPR)
    build_index(tmp_path / "psgs.tsv", tmp_path / "index")
    retriever = open_index(tmp_path / "index")
    assert [hit.id for hit in retriever.search("blue door", 1)] == ["1"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name,words\na,b\n", "first line is 'name,words'.*understood are id, title, text"),
        (b'id,text\n1,"a\n2,b\n3,c\n', "line 2 .*quotation mark out of place"),
        (b"id,text\n1,a,b\n", "row 1: .*expected 2 columns.*got 3"),
        (b'{"id": 1, "text": "a"}\n{"id": {}, "text": "b"}\n', 'line 2: expected "id"'),
        (b'{"id": 1, "text": "a"}\n{"id": 2, "text": {"b": 1}}\n', "line 2: a passage has"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_a_broken_corpus_is_refused_with_its_place(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(DataError, match=f"broken.*{said}"):
        list(CorpusReader(tmp_path / "broken"))

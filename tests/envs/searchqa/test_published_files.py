"""Question files as their authors publish them, restated, and files that are none."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.envs.searchqa.questions.answers import read_golds
from agent_gym.envs.searchqa.questions.files import find_files, load_split
from agent_gym.envs.searchqa.questions.formats import read_questions
from agent_gym.envs.searchqa.questions.sets import OWN_RULES
from agent_gym.envs.searchqa.tasks import choose_tasks
from agent_gym.support.errors import DataError
from agent_gym.support.left_out import LeftOutWarning

YES, NO = ("yes", "true"), ("no", "false")
DOCUMENTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "flashrag": (("Ana Ruiz", "A. Ruiz"), ("12", "twelve")),
    "search-r1": (("Ana Ruiz",), ("12",)),
    "nq-open": (("Ana Ruiz",), ("12", "twelve")),
    "dpr": (("Ana Ruiz", "Ana's workshop"), ("12", "twelve")),
    "triviaqa": (("Ana Ruiz", "A. Ruiz", "ana ruiz", "a ruiz"), ("12", "a dozen")),
    "squad": (("Ana Ruiz", "Ruiz"), ("twelve",)),
    "mrqa": (("Ana Ruiz",), ("twelve", "12")),
    "popqa": (("Ana Ruiz", "Ruiz, Ana"), ("Sobi",)),
    "hotpotqa": (("Ana Ruiz",), ("yes",)),
    "musique": (("Ana Ruiz", "A. Ruiz"), ("1970",)),
    "bamboogle": (("Ana Ruiz",), ("1970",)),
    "strategyqa": (YES, NO),
    "boolq": (YES, NO),
    "ircot": (("Ana Ruiz",), ("3 May 1999",)),
    "kilt": (("Ana Ruiz",), ("Sobi",)),
    "fever": (("SUPPORTS",), ("REFUTES",)),
    "webquestions": (("Ana Ruiz", "Ruiz"), ("Sobi",)),
    "ambigqa": (("Ana Ruiz", "A. Ruiz"), ("1999", "2004")),
    "arc": (("wood",), ("a key",)),
    "multiple-choice": (("wood",), ("a key",)),
}
PAGE = Path(__file__).parents[3] / "docs" / "searchqa.md"
EXAMPLES = {
    name: (file, text)
    for name, file, text in re.findall(
        r'^```\w+ title="([\w-]+)/([^"]+)"\n(.*?)^```', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
}
ROWS = [
    {"id": "a", "question": "who painted it", "answers": ["Ana Ruiz", "A. Ruiz"]},
    {"id": "b", "question": "how many; doors, or | bars?", "answers": ["12"]},
]
GOLDS = [("Ana Ruiz", "A. Ruiz"), ("12",)]


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(delimiter: str, end: str = "\n") -> str:
    cells = [["id", "Question", "Golden Answers"]]
    cells += [[row["id"], row["question"], json.dumps(row["answers"])] for row in ROWS]  # type: ignore[list-item]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in cells]
    return end.join(delimiter.join(row) for row in quoted) + end


def test_every_documented_set_has_an_example() -> None:
    assert set(EXAMPLES) == set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_two_rows_of_a_documented_set_are_read_with_all_their_answers(name: str, tmp_path: Path) -> None:
    file, text = EXAMPLES[name]
    (tmp_path / file).write_text(text, "utf-8")
    questions = list(read_questions(tmp_path / file, name))
    assert tuple(question.golds for question in questions) == DOCUMENTED[name]
    assert len({question.id for question in questions}) == 2
    assert all(len(question.question) > 10 for question in questions)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_sets_are_read_the_same_from_parquet(name: str, tmp_path: Path) -> None:
    if name in ("dpr", "popqa", "bamboogle", "squad", "mrqa", "triviaqa"):
        pytest.skip("published as a table, or nested, only")
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    text = EXAMPLES[name][1]
    rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    mixed = ("supporting_facts", "context", "question_decomposition")  # lists that parquet cannot hold as they are
    rows = [{key: row[key] for key in row if row[key] not in ({}, []) and key not in mixed} for row in rows]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "rows")
    assert tuple(question.golds for question in read_questions(tmp_path / "rows", name)) == DOCUMENTED[name]


CONTAINERS: dict[str, bytes] = {
    "lines.json": lines(ROWS).encode(),
    "list.jsonl": json.dumps(ROWS).encode(),
    "indented.txt": json.dumps(ROWS, indent=2).encode(),
    "objects-one-after-another.json": "\n".join(json.dumps(row, indent=1) for row in ROWS).encode(),
    "around-a-list.json": json.dumps({"version": 2, "questions": ROWS}).encode(),
    "by-column.json": json.dumps({key: [row[key] for row in ROWS] for key in ROWS[0]}).encode(),
    "pandas.json": json.dumps({key: {str(n): row[key] for n, row in enumerate(ROWS)} for key in ROWS[0]}).encode(),
    "by-id.json": json.dumps({row["id"]: {k: v for k, v in row.items() if k != "id"} for row in ROWS}).encode(),
    "dataset-server.json": json.dumps(
        {"features": [], "rows": [{"row_idx": n, "row": row} for n, row in enumerate(ROWS)]}
    ).encode(),
    "comma.tsv": table(",").encode(),
    "semicolon.csv": table(";", "\r\n").encode("utf-8-sig"),
    "tab.csv": table("\t").encode(),
    "bar.dat": table("|").encode(),
    "declared.csv": ("sep=;\n" + table(";")).encode(),
    "utf16.csv": table("\t").encode("utf-16"),
    "mark.jsonl": b"\xef\xbb\xbf\n\n" + lines(ROWS).encode(),
    "gzip-without-its-ending.jsonl": gzip.compress(lines(ROWS).encode()),
    "xz.csv": lzma.compress(table(";").encode()),
    "bzip2.json.gz": bz2.compress(json.dumps(ROWS).encode()),
    "plain.jsonl.gz": lines(ROWS).encode(),
    "keys.jsonl": lines(
        [{"QID": row["id"], "question_text": row["question"], "Golden-Answers": row["answers"]} for row in ROWS]
    ).encode(),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_file_is_read_by_its_content_whatever_its_ending(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(CONTAINERS[name])
    questions = list(read_questions(tmp_path / name, "x"))
    assert [question.golds for question in questions] == GOLDS
    assert [question.id for question in questions] == ["a", "b"]
    assert [question.question for question in questions] == [row["question"] for row in ROWS]


BROKEN: dict[str, tuple[bytes, str]] = {
    "cut.json": (json.dumps(ROWS)[:-9].encode(), "neither JSON lines .* nor a JSON document .*cut"),
    "stray-quote.csv": (
        b'question,answer\n"who,a\n' + b"what,b\n" * 20 + b'"why, then",c\n',
        "line 2 .*quotation mark out of place.*doubled",
    ),
    "swallowed.csv": (
        b'question,answer\n"who,a\n' + b"what,b\n" * 20 + b'why",c\nhow,d\n',
        "line 2 .*would make one text of 22 lines.*doubled",
    ),
    "open-quote.csv": (b'question;answer\nwho;a\n"why;b\nhow;c\n', "line 3 .*quotation mark out of place"),
    "columns.csv": (b"text,words\na,b\n", "first line is 'text,words'.*understood are question"),
    "no-answers.tsv": (b"question\tcategory\nwho\tx\n", "understood are question.*'category'"),
    "page.json": (b"\n<!DOCTYPE html><html></html>", "web page.*download it"),
    "pointer.jsonl": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "archive.zip": (b"PK\x03\x04" + bytes(40), "zip archive.*unpack"),
    "pickle.json": (b"\x80\x04\x95" + bytes(40), "pickle.*JSON lines"),
    "binary.csv": (b"q\x00uestion,answer" + bytes(40), "no text; expected JSON"),
    "latin1.csv": ("question,answer\nwho,Zoë\n".encode("latin-1"), "line 2 is not UTF-8.*save the file as UTF-8"),
    "torn.json": (gzip.compress(lines(ROWS * 50).encode())[:-30], "cannot be decompressed"),
    "torn.parquet": (b"PAR1" + bytes(40), "not readable as parquet"),
    "deep.json": (b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_name_and_a_remedy(name: str, tmp_path: Path) -> None:
    content, said = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.compile(f"{re.escape(name)}.*{said}", re.DOTALL)) as raised:
        choose_tasks(tmp_path / name, "all", None)
    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("name", OWN_RULES)
def test_a_set_with_another_scoring_rule_is_refused_by_name_and_played_under_another(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name / "test.jsonl"
    path.parent.mkdir()
    path.write_text(lines(ROWS), "utf-8")
    with pytest.raises(DataError, match=f"{name} is not scored by exact match: its answers are .*name of your own"):
        choose_tasks(path, "test", None)
    assert len(choose_tasks({f"my-{name}": path}, "test", None)) == 2


@pytest.mark.parametrize(
    ("value", "golds"),
    [
        ([True], YES),
        (False, NO),
        (1989.0, ("1989",)),
        (1e21, ("1000000000000000000000",)),
        (0.1, ("0.1",)),
        (-0.0, ("-0",)),
        (Decimal("2.50"), ("2.5",)),
        ([["a"], [["b"]], None, math.nan], ("a", "b")),
        ("['it''s', \"b\"]", ("its", "b")),
        ("[citation needed]", ("[citation needed]",)),
        ({"Text": ["a", "b"], "answer_start": [1, 2]}, ("a", "b")),
    ],
)
def test_answers_are_flat_and_written_as_people_write_them(value: Any, golds: tuple[str, ...]) -> None:
    assert read_golds(value) == golds


@pytest.mark.parametrize(
    "value", [{"wrong": 1}, b"bytes", [object()], math.inf, [None], "", [[[[[[[["a"]]]]]]]], {"spans": ["a", "b"]}]
)
def test_what_is_no_answer_is_refused(value: Any) -> None:
    with pytest.raises(DataError, match="answer"):
        read_golds(value)


@given(st.recursive(st.text() | st.integers() | st.booleans(), lambda inner: st.lists(inner, max_size=3)))
def test_any_answers_are_texts_or_refused(value: Any) -> None:
    try:
        golds = read_golds(value)
    except DataError:
        return
    assert golds and all(isinstance(gold, str) and gold.strip() for gold in golds)


def test_bad_rows_are_left_out_and_listed_with_their_reasons(tmp_path: Path) -> None:
    bad = [{"question": "who"}, {"question": "who", "answer": {"odd": 1}}, ROWS[0]]
    path = tmp_path / "test.jsonl"
    path.write_text(lines(ROWS) + "{torn\n" + lines(bad) + lines([{"question": "x"}] * 6), "utf-8")
    with pytest.warns(LeftOutWarning) as warned:
        _, chosen = load_split(find_files(path), "test")
    said = str(warned[0].message)
    assert [question.golds for question in next(iter(chosen.values()))] == GOLDS
    assert said.startswith("10 of 12 questions cannot be played: ")
    assert f"{path}, row 3: expected an object with a question" in said and "and 5 more. They are" in said
    path.write_text(lines([{"question": "x"}] * 30 + ROWS), "utf-8")
    with pytest.raises(DataError, match="30 of 32 questions cannot be played"):
        load_split(find_files(path), "test")


def test_a_broken_file_among_others_is_left_out(tmp_path: Path) -> None:
    for number in range(19):
        rows = [{**row, "question": f"{row['question']} {number}"} for row in ROWS]
        (tmp_path / f"set{number}_test.jsonl").write_text(lines(rows), "utf-8")
    (tmp_path / "bad_test.csv").write_bytes(BROKEN["stray-quote.csv"][0])
    with pytest.warns(LeftOutWarning, match=r"1 of 39 questions .*bad_test\.csv: the row that starts on line 2"):
        tasks = choose_tasks(tmp_path, "test", None)
    assert len(tasks) == 38

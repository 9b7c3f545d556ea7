"""Reads question files: FlashRAG, Search-R1, HotpotQA, 2WikiMultihopQA, MuSiQue, and plain tables.

What a file is follows from its ending and the keys of its rows, so nothing has to be declared:

| ending | rows |
|---|---|
| `.jsonl`, `.json` (a list), each also `.gz` or `.xz` | any of the forms below |
| `.parquet` | Search-R1's training and test files (extra `[search]`) |
| `.csv`, `.tsv` | columns `question` and `answer` (or `golden_answers`, `answers`), optionally `id` |

A row without an id has its number, after the split that the file's name tells: `train_7`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_gym.envs.searchqa.questions.question import Question, read_golds
from agent_gym.support.errors import DataError
from agent_gym.support.files import read_whole

ENDINGS = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
_PACKED = (".gz", ".xz")
_MOST_BYTES = 1 << 32
"""Most bytes of a question file, decompressed."""
_KEPT = ("type", "hops", "level", "supporting_titles", "supporting_ids", "chain", "plan", "world")
_PARQUET_COLUMNS = (
    "id",
    "data_source",
    "question",
    "golden_answers",
    "reward_model",
    "prompt",
    "extra_info",
    "metadata",
)
_ASKED = re.compile(r"Question:\s*(.*?)\s*$", re.DOTALL)
_MUSIQUE_HOPS = re.compile(r"(\d)hop")


def ending_of(path: Path) -> str:
    """Return the ending that tells the format, without that of a compression."""
    inner = path.with_suffix("") if path.suffix in _PACKED else path
    return inner.suffix.lower()


def stem_of(path: Path) -> str:
    """Return the file's name without endings."""
    inner = path.with_suffix("") if path.suffix in _PACKED else path
    return inner.stem


def read_questions(path: Path, source: str, prefix: str = "") -> Iterator[Question]:
    """Yield the questions of a file.

    Args:
        path: The file.
        source: Name of the data set, for rows that do not tell.
        prefix: Put before the number that is the id of a row without one.

    Raises:
        DataError: The file or a row is malformed; the message names the place.
    """
    ending = ending_of(path)
    readers: Mapping[str, Callable[[Path], Iterator[Any]]] = {
        ".jsonl": _json_lines,
        ".json": _json_list,
        ".parquet": _parquet,
        ".csv": lambda place: _table(place, ","),
        ".tsv": lambda place: _table(place, "\t"),
    }
    if ending not in readers:
        raise DataError(
            f"{path} is no question file; known endings: {', '.join(ENDINGS)}, and .gz or .xz after them"
        )
    for number, row in enumerate(readers[ending](path), 1):
        try:
            yield row_question(row, source, number - 1, prefix)
        except DataError as error:
            raise DataError(f"{path}, row {number}: {error}") from error


def row_question(row: Any, source: str, number: int, prefix: str = "") -> Question:
    """Return the question of a row of any known form.

    Args:
        row: The row.
        source: Data set, where the row does not tell.
        number: Position in the file, the id of rows without one.
        prefix: Put before it.

    Raises:
        DataError: The row has none of the forms.
    """
    if not isinstance(row, Mapping):
        raise DataError(f"expected an object, got {type(row).__name__}")
    if row.get("reward_model") is not None:
        return _search_r1(row, source, number, prefix)
    if "question" not in row:
        raise DataError(f"expected a 'question'; the row has {sorted(map(str, row))[:12]}")
    if "paragraphs" in row or "question_decomposition" in row:
        metadata, golds = _musique(row)
    elif "supporting_facts" in row:
        metadata, golds = {"type": row.get("type"), **_supporting(row["supporting_facts"])}, row.get("answer")
    elif row.get("golden_answers") is not None:
        metadata, golds = _trimmed(row.get("metadata")), _listed(row["golden_answers"])
    else:
        golds = row.get("answers") if row.get("answers") is not None else row.get("answer")
        metadata, golds = {}, _listed(golds)
    name = row.get("id", row.get("_id"))
    named = row.get("source", row.get("data_source"))
    return Question(
        str(named) if named else source,
        f"{prefix}{number}" if name is None or name == "" else str(name),
        _text(row["question"]),
        read_golds(golds),
        {key: value for key, value in metadata.items() if value is not None},
    )


def _search_r1(row: Mapping[str, Any], source: str, number: int, prefix: str) -> Question:
    try:
        truth = row["reward_model"]["ground_truth"]
        golds = truth["target"] if isinstance(truth, Mapping) else truth
        question = row.get("question")
        if question is None:
            asked = _ASKED.search(row["prompt"][-1]["content"])
            question = asked[1] if asked else ""
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"expected reward_model.ground_truth.target and prompt as Search-R1 has them ({error})"
        ) from error
    extra = row.get("extra_info") or {}
    name = row.get("id")
    if name is None:
        name = f"{prefix}{extra.get('index', number)}"
    return Question(
        str(row.get("data_source") or source),
        str(name),
        _text(question),
        read_golds(_plain(golds)),
        _trimmed(row.get("metadata")),
    )


def _musique(row: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    paragraphs = row.get("paragraphs") or []
    titles = [item.get("title") for item in paragraphs if item.get("is_supporting")]
    hops = _MUSIQUE_HOPS.match(str(row.get("id", "")))
    metadata = {
        "type": str(row.get("id", "")).partition("__")[0] or None,
        "hops": int(hops[1]) if hops else len(row.get("question_decomposition") or []) or None,
        "supporting_titles": list(dict.fromkeys(titles)),
    }
    answer = row.get("answer")
    golds = [answer, *(row.get("answer_aliases") or [])] if answer is not None else row.get("golden_answers")
    return metadata, golds


def _supporting(facts: Any) -> dict[str, Any]:
    """Return the titles of HotpotQA's supporting facts: [[title, sentence], ...] or {"title": [...]}."""
    titles = facts.get("title", []) if isinstance(facts, Mapping) else [fact[0] for fact in facts or []]
    return {"supporting_titles": list(dict.fromkeys(map(str, titles)))}


def _trimmed(metadata: Any) -> dict[str, Any]:
    """Return what is used of a row's metadata; contexts of ten passages would fill the memory."""
    if not isinstance(metadata, Mapping):
        return {}
    kept = {key: _plain(metadata[key]) for key in _KEPT if metadata.get(key) is not None}
    if "supporting_titles" not in kept and metadata.get("supporting_facts") is not None:
        kept |= _supporting(metadata["supporting_facts"])
    return kept


def _plain(value: Any) -> Any:
    """Return arrays as lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def _listed(value: Any) -> Any:
    """Return the list that a cell of a table may hold as JSON, or the value as it is."""
    value = _plain(value)
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            found = json.loads(value)
        except ValueError:
            return value
        if isinstance(found, list):
            return found
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"expected 'question' to be a text, got {value!r}")
    return value.strip()


# Files ------------------------------------------------------------------------------------------------------------


def _read(path: Path) -> str:
    try:
        return read_whole(path, _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _json_lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(_read(path).split("\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: expected a JSON object ({error})") from error


def _json_list(path: Path) -> Iterator[Any]:
    try:
        rows = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not JSON ({error})") from error
    rows = rows.get("data") if isinstance(rows, Mapping) else rows
    if not isinstance(rows, list):
        raise DataError(f"{path}: expected a list of questions")
    yield from rows


def _table(path: Path, delimiter: str) -> Iterator[Any]:
    yield from csv.DictReader(io.StringIO(_read(path), newline=""), delimiter=delimiter)


def _parquet(path: Path) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path}: reading parquet needs pyarrow; pip install 'agent-gym[search]'") from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        columns = [
            name for name in file.schema_arrow.names if name in _PARQUET_COLUMNS or name in ("answer", "answers")
        ]
        for batch in file.iter_batches(columns=columns):
            yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} is not readable as parquet: {error}") from error

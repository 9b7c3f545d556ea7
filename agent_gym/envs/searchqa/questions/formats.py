"""Reads question files: every published form, in every container.

Nothing has to be declared: what a file is packed in follows from its content (`agent_gym.support.rows`), and what a
row is from its keys (`keys`). docs/searchqa.md lists the sets with an example of each. A row without an id has its
number, after the split that the file's name tells: `train_7`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agent_gym.envs.searchqa.questions.answers import chosen, read_golds
from agent_gym.envs.searchqa.questions.keys import (
    ALIASES,
    ANSWERS,
    ID,
    QUESTION,
    SOURCE,
    UNDERSTOOD,
    first_of,
    is_known,
    question_headings,
)
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.support.errors import DataError
from agent_gym.support.left_out import LeftOut
from agent_gym.support.rows import Layout, plain_key, read_rows

ENDINGS: Final = (".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv")
"""Endings by which question files are found in a folder; a file that is named may have any."""
_PACKED = (".gz", ".xz", ".bz2")
_MOST_BYTES = 1 << 32
"""Most bytes of a question file, decompressed."""
_LAYOUT = Layout(is_known, question_headings, most=_MOST_BYTES, total=_MOST_BYTES)
_KEPT = ("type", "hops", "level", "supporting_titles", "supporting_ids", "chain", "plan", "world")
_ASKED = re.compile(r"Question:\s*(.*?)\s*$", re.DOTALL)
_MUSIQUE_HOPS = re.compile(r"(\d)hop")


def ending_of(path: Path) -> str:
    """Return the ending of a file's name, without that of a compression."""
    inner = path.with_suffix("") if path.suffix in _PACKED else path
    return inner.suffix.lower()


def stem_of(path: Path) -> str:
    """Return the file's name without endings."""
    inner = path.with_suffix("") if path.suffix in _PACKED else path
    return inner.stem


def read_questions(
    path: Path, source: str, prefix: str = "", left_out: LeftOut | None = None
) -> Iterator[Question]:
    """Yield the questions of a file.

    Args:
        path: The file.
        source: Name of the data set, for rows that do not tell.
        prefix: Put before the number that is the id of a row without one.
        left_out: Is told of rows that are no questions; without it the first of them is an error.

    Raises:
        DataError: The file is malformed, or a row where nothing is left out; the message names the place.
    """
    count = 0
    try:
        with path.open("rb") as raw:
            for row in read_rows(raw, path, _LAYOUT):
                held = [row] if row.problem else list(_questions_in(row.value))
                for one in held:
                    count += 1
                    try:
                        if row.problem:
                            raise DataError(f"expected an object with a question, {row.problem}")
                        yield row_question(one, source, count - 1, prefix)
                    except DataError as error:
                        if left_out is None:
                            raise DataError(f"{path}, row {row.number}: {error}") from error
                        left_out.add(f"{path}, row {row.number}", error)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


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
    parts: dict[str, Any] = {}
    for key, value in row.items():
        parts.setdefault(plain_key(key), value)
    if parts.get("rewardmodel") is not None:
        return _search_r1(parts, source, number, prefix)
    if not any(name in parts for name in QUESTION):
        raise DataError(f"expected a 'question'; understood are {UNDERSTOOD}; the row has {_names(row)}")
    if parts.get("isimpossible") is True or parts.get("answerable") is False:
        raise DataError("the question is marked as one without an answer, which cannot be scored; leave it out")
    golds = first_of(parts, ANSWERS)
    if golds is None and not any(name in parts for name in ANSWERS):
        raise DataError(f"expected 'golden_answers'; understood are {UNDERSTOOD}; the row has {_names(row)}")
    if parts.get("choices") or parts.get("options"):
        golds = chosen(golds, parts.get("choices") or parts.get("options"))
    return Question(
        _name(first_of(parts, SOURCE), source),
        _name(first_of(parts, ID), f"{prefix}{number}"),
        _text(first_of(parts, QUESTION)),
        read_golds([golds, *(parts.get(name) for name in ALIASES)]),
        {key: value for key, value in _metadata(parts).items() if value is not None},
    )


def _questions_in(row: Any) -> Iterator[Any]:
    """Yield the rows of a row that holds several questions: an article of SQuAD, or a context of MRQA."""
    if not isinstance(row, Mapping) or "header" in row:
        if not isinstance(row, Mapping):
            yield row  # which is refused by name
        return
    inner = row.get("qas")
    if isinstance(inner, list):
        yield from inner
        return
    paragraphs = row.get("paragraphs")
    asked = [
        part["qas"]
        for part in (paragraphs if isinstance(paragraphs, list) else ())
        if isinstance(part, Mapping) and isinstance(part.get("qas"), list)
    ]
    if not asked:
        yield row
    for questions in asked:
        yield from questions


def _search_r1(row: Mapping[str, Any], source: str, number: int, prefix: str) -> Question:
    try:
        truth = row["rewardmodel"]["ground_truth"]
        golds = truth["target"] if isinstance(truth, Mapping) else truth
        question = row.get("question")
        if question is None:
            asked = _ASKED.search(row["prompt"][-1]["content"])
            question = asked[1] if asked else ""
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"expected reward_model.ground_truth.target and prompt as Search-R1 has them ({error})"
        ) from error
    extra = row.get("extrainfo")
    index = extra.get("index") if isinstance(extra, Mapping) else None
    return Question(
        _name(first_of(row, SOURCE), source),
        _name(row.get("id"), f"{prefix}{_name(index, str(number))}"),
        _text(question),
        read_golds(golds),
        _trimmed(row.get("metadata")),
    )


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what else is used of a row, under the keys of `Question.metadata`."""
    if "paragraphs" in row or "questiondecomposition" in row:
        return _musique(row)
    if row.get("supportingfacts") is not None:
        return {"type": row.get("type"), **_supporting(row["supportingfacts"])}
    return _trimmed(row.get("metadata"))


def _musique(row: Mapping[str, Any]) -> dict[str, Any]:
    paragraphs = row.get("paragraphs") or []
    titles = [item.get("title") for item in paragraphs if isinstance(item, Mapping) and item.get("is_supporting")]
    name = row.get("id")
    hops = _MUSIQUE_HOPS.match(name) if isinstance(name, str) else None
    return {
        "type": name.partition("__")[0] or None if isinstance(name, str) else None,
        "hops": int(hops[1]) if hops else len(row.get("questiondecomposition") or []) or None,
        "supporting_titles": list(dict.fromkeys(titles)),
    }


def _supporting(facts: Any) -> dict[str, Any]:
    """Return the titles of HotpotQA's supporting facts: [[title, sentence], ...] or {"title": [...]}."""
    if isinstance(facts, Mapping):
        titles = facts.get("title") or []
    else:
        titles = [fact[0] for fact in facts if isinstance(fact, list | tuple) and fact]
    return {"supporting_titles": list(dict.fromkeys(title for title in titles if isinstance(title, str)))}


def _trimmed(metadata: Any) -> dict[str, Any]:
    """Return what is used of a row's metadata; contexts of ten passages would fill the memory."""
    if not isinstance(metadata, Mapping):
        return {}
    kept = {key: metadata[key] for key in _KEPT if metadata.get(key) is not None}
    if "supporting_titles" not in kept and metadata.get("supporting_facts") is not None:
        kept |= _supporting(metadata["supporting_facts"])
    return kept


def _names(row: Mapping[Any, Any]) -> list[str]:
    return sorted(str(key)[:40] for key in row)[:12]


def _name(value: Any, otherwise: str) -> str:
    """Return an id or a source that a row tells, as text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with a gap, in parquet
    if value is None or value == "" or value != value:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"expected ids and sources to be texts or whole numbers, got {value!r:.80}")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"expected 'question' to be a text, got {value!r:.80}")
    return value.strip()

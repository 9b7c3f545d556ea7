"""Recall of supporting passages with the question as the query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_gym.retrieval import Retriever
from agent_gym.support.errors import DataError


@dataclass(frozen=True, slots=True)
class Recall:
    """Figures of one retriever on one set, each a share in [0, 1].

    Attributes:
        questions: Number of questions.
        k: Hits per question.
        some: Questions with at least one supporting passage among the hits.
        all: Questions with all of them.
        mean: Mean share of a question's supporting passages.
    """

    questions: int
    k: int
    some: float
    all: float
    mean: float


def read_questions(path: Path) -> list[tuple[str, frozenset[str]]]:
    """Return questions and the ids of their supporting passages (`metadata.supporting_ids`) of a JSON-lines file.

    Raises:
        DataError: The file is missing, malformed, or names no supporting passages.
    """
    try:
        rows: list[Any] = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        found = [(row["question"], frozenset(row["metadata"]["supporting_ids"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected JSON lines with question and metadata.supporting_ids ({error!r})"
        ) from error
    if not found or not all(ids for _, ids in found):
        raise DataError(f"{path}: every question needs at least one id in metadata.supporting_ids")
    return found


def measure_recall(
    retriever: Retriever, questions: Sequence[tuple[str, frozenset[str]]], ks: Sequence[int]
) -> list[Recall]:
    """Return the recall of a retriever at every k."""
    results = retriever.search_many([question for question, _ in questions], max(ks))
    figures = []
    for k in ks:
        shares = [
            len(ids & {hit.id for hit in hits[:k]}) / len(ids)
            for (_, ids), hits in zip(questions, results, strict=True)
        ]
        some, every = sum(share > 0 for share in shares), sum(share == 1 for share in shares)
        count = len(shares)
        figures.append(Recall(count, k, some / count, every / count, sum(shares) / count))
    return figures

"""What the keys and columns of question files are called, spelling apart.

`golden_answers`, `Golden Answers` and `goldenAnswers` are one key: only letters and digits count, in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_gym.support.errors import DataError
from agent_gym.support.rows import plain_key

QUESTION: Final = (
    "question",
    "questiontext",
    "query",
    "problem",
    "input",
    "inputtext",
    "utterance",
    "claim",
    "q",
    "prompt",
)
"""Keys of the question's text; the first one that a row has counts."""
ANSWERS: Final = (
    "goldenanswers",
    "goldanswers",
    "possibleanswers",
    "acceptedanswers",
    "answers",
    "answer",
    "answersobjects",
    "answertext",
    "finalanswer",
    "expectedanswer",
    "correctanswer",
    "groundtruth",
    "groundtruths",
    "targets",
    "target",
    "targetvalue",
    "outputs",
    "output",
    "references",
    "reference",
    "answerkey",
    "labels",
    "label",
    "gold",
    "golds",
    "solution",
    "response",
    "a",
    "annotations",
)
"""Keys of the accepted answers; the first one that holds something counts."""
ALIASES: Final = ("answeraliases", "aliases", "alternativeanswers")
"""Keys of further accepted answers."""
ID: Final = ("id", "qid", "questionid", "queryid", "exampleid", "uid")
SOURCE: Final = ("source", "datasource", "dataset", "datasetname")
_OTHER: Final = (
    "answerable",
    "choices",
    "extrainfo",
    "hops",
    "isimpossible",
    "level",
    "metadata",
    "options",
    "paragraphs",
    "qas",
    "questiondecomposition",
    "rewardmodel",
    "supportingfacts",
    "supportingtitles",
    "type",
)
_KNOWN: Final = frozenset((*QUESTION, *ANSWERS, *ALIASES, *ID, *SOURCE, *_OTHER))
UNDERSTOOD: Final = (
    "question, query, problem, input or prompt for the question and golden_answers, possible_answers, answers, "
    "answer, target, output or label for its answers (case, blanks and underscores do not matter)"
)


def is_known(key: str) -> bool:
    """Return whether a key means something in a question file."""
    return plain_key(key) in _KNOWN


def first_of(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return what stands under the first of some plain keys that holds something, None where none does."""
    return next((row[name] for name in names if row.get(name) not in (None, "", [])), None)


def question_headings(fields: Sequence[str]) -> Sequence[str] | None:
    """Tell the header of a table of questions from a row; see `agent_gym.support.delimited.Headings`.

    Files without a header, as DPR gives them, have a question and a list of answers in each line.

    Raises:
        DataError: The fields are neither.
    """
    names = [plain_key(field) for field in fields]
    if any(name in QUESTION for name in names) and any(name in ANSWERS for name in names):
        return None
    if len(fields) == 2 and fields[1].lstrip().startswith("[") and fields[1].rstrip().endswith("]"):
        return ("question", "answers")
    raise DataError(f"understood are {UNDERSTOOD}; there are {list(fields)[:12]}"[:600])

"""Which question files a data argument names, and which split each belongs to."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from agent_gym.core.tasks import check_split
from agent_gym.envs.searchqa.questions.formats import ENDINGS, ending_of, read_questions, stem_of
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.questions.scoring import normalise_squad
from agent_gym.envs.searchqa.questions.sets import check_rule
from agent_gym.support.data import resolve_data
from agent_gym.support.errors import ConfigError, DataError
from agent_gym.support.left_out import LeftOut
from agent_gym.support.seeding import derive_seed

TRAIN, VALID, TEST, ALL = "train", "valid", "test", "all"
SPLITS = (TRAIN, VALID, TEST, ALL)
_WORDS = {"train": TRAIN, "dev": VALID, "valid": VALID, "validation": VALID, "val": VALID, "test": TEST}
_GENERAL = frozenset(("questions", "question", "data", "qa", "full", "ans", "v"))
_SHARES = ((TEST, 10), (VALID, 20), (TRAIN, 100))  # upper bounds in per cent, by a hash of the question's text
_EXPECTED = f"question files ({', '.join(ENDINGS)}) or a folder of them"


class QuestionFile(NamedTuple):
    """One file.

    Attributes:
        source: Data set.
        split: "train", "valid" or "test" as its name says, "" when it says nothing.
        path: Where it is.
    """

    source: str
    split: str
    path: Path


def find_files(questions: Any) -> list[QuestionFile]:
    """Return the files that a data argument names.

    Args:
        questions: A file, a folder (its files with a split in their names), a list of these, or a mapping from
            source names to these.

    Raises:
        ConfigError: The argument is none of these.
        DataError: Nothing is there.
    """
    if isinstance(questions, Mapping):
        return [
            file._replace(source=str(source)) for source, named in questions.items() for file in find_files(named)
        ]
    if isinstance(questions, (str, Path)):
        return _at(resolve_data(questions, _EXPECTED))
    if isinstance(questions, Sequence) and questions:
        return [file for named in questions for file in find_files(named)]
    raise ConfigError(f"questions must be 'generated', a path, a list of paths or a mapping, got {questions!r}")


def _at(path: Path) -> list[QuestionFile]:
    if path.is_file():
        return [_file(path)]
    found = [_file(each) for each in sorted(path.rglob("*")) if each.is_file() and ending_of(each) in ENDINGS]
    found = [file for file in found if file.split]
    if not found:
        raise DataError(
            f"no question file in {path}; expected names that tell the split, such as nq/test.jsonl or "
            "hotpot_dev_distractor_v1.json"
        )
    return found


def _file(path: Path) -> QuestionFile:
    words = [word for word in re.split(r"[^a-z]+", stem_of(path).lower()) if word]
    split = next((_WORDS[word] for word in words if word in _WORDS), "")
    own = [word for word in words if word not in _WORDS and word not in _GENERAL]
    return QuestionFile("_".join(own) or path.absolute().parent.name or "questions", split, path)


@lru_cache(maxsize=32)
def _read(file: QuestionFile, modified: int) -> tuple[tuple[Question, ...], LeftOut]:
    """Return the questions of a file and what is wrong with the others, or with the file."""
    left_out = LeftOut("questions")
    try:
        check_rule(file.source)
        # Rows without ids are numbered; those of two files of one source must not share their numbers.
        prefix = f"{file.split}_" if file.split else ""
        return tuple(read_questions(file.path, file.source, prefix, left_out)), left_out
    except DataError as error:
        left_out.refuse(str(file.path), error)
        return (), left_out


def load_split(files: Iterable[QuestionFile], split: str | None) -> tuple[str, dict[str, list[Question]]]:
    """Return the questions of a split by source.

    A source with a dev file and no test file is tested on the dev file, as the published evaluations do; its valid
    split is empty then. A source whose files tell no split is divided by a hash of the question's normalised text,
    about 80, 10 and 10 per cent, so that the same question is in one split only.

    Args:
        files: Files of all sources.
        split: Split, or None for train where there is one, else test, else all.

    Returns:
        The split, and source -> questions in the order of the files.

    Raises:
        ConfigError: There is no such split, or it is empty; the message lists what there is.
        DataError: Nothing, or next to nothing, can be read.

    Warns:
        LeftOutWarning: Some questions or files cannot be read; the others are played.
    """
    files = list(files)
    if split is None:
        named = {file.split for file in files}
        split = TRAIN if TRAIN in named else TEST if named - {""} else ALL
    check_split("question files have", SPLITS, split)
    chosen: dict[str, dict[str, Question]] = {}
    left_out = LeftOut("questions")
    for file in files:
        own = _plays_as({other.split for other in files if other.source == file.source}, file.split)
        if split not in (ALL, own) and own:
            continue
        questions, bad = _read(file, file.path.stat().st_mtime_ns)
        left_out.take(bad)
        for question in questions:
            if split == ALL or own or _share(question) == split:
                _add(question, file, chosen, left_out)
    left_out.settle(sum(map(len, chosen.values())))
    if not chosen:
        raise _nothing_in(split, files)
    return split, {source: list(questions.values()) for source, questions in chosen.items()}


def _add(question: Question, file: QuestionFile, chosen: dict[str, dict[str, Question]], left_out: LeftOut) -> None:
    """Add a question to those of its source, under an id that no other one has; a copy is left out."""
    others = chosen.setdefault(question.source, {})
    name, count = question.id, 1
    while name in others:
        if others[name].question == question.question:
            left_out.add(f"{file.path}, id {question.id!r:.80}", "the question is there already")
            return
        count += 1
        name = f"{question.id}-{count}"
    others[name] = question if name == question.id else replace(question, id=name)


def _nothing_in(split: str, files: Sequence[QuestionFile]) -> ConfigError | DataError:
    """Return why a split of files is empty, and what to do."""
    if not any(_read(file, file.path.stat().st_mtime_ns)[0] for file in files):
        names = ", ".join(str(file.path) for file in files)
        return DataError(f"{names} {'is' if len(files) == 1 else 'are'} empty; expected questions, one a row")
    if not any(file.split for file in files):
        why = "no file's name tells a split, so a hash divides the questions, and none falls into it"
    else:
        there = {f"{file.source}: {file.split or 'no split in its name'}" for file in files}
        why = f"there are {', '.join(sorted(there))}"
    return ConfigError(f"no question in split {split!r} ({why}); add --split all (split='all') to play them all")


def _plays_as(splits: set[str], split: str) -> str:
    return TEST if split == VALID and TEST not in splits else split


def _share(question: Question) -> str:
    percent = derive_seed("searchqa split", normalise_squad(unicodedata.normalize("NFKC", question.question))) % 100
    return next(name for name, bound in _SHARES if percent < bound)

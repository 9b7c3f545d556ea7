"""Game records: what a `game.tw-pddl` file says, checked, before anything is compiled.

Two text formats exist. Files of data release 2.1.1 speak format 0.3 ("put X in/on Y"); later ones speak 0.4
("move X to Y", a help command). A file's grammar tells which. The problem text is the same in both, so a
record of one format can be played in the other.

The generator's records have the same keys without domain and grammar, and a "task" key with the sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from agent_gym.support.errors import ConfigError, DataError

MAX_FILE_BYTES: Final = 16_000_000
"""Largest game file read; real ones have 52 to 129 kilobytes."""

TASK_PREFIX: Final = "Your task is to: "

TASK_RULE: Final = re.compile(r'"task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")')
"""Finds the rule of a grammar that holds the goal sentence; group 1 is the JSON string."""
_OLD_PUT, _NEW_PUT = 'template :: "put {o} in/on {r}"', 'template :: "move {o} to {r}"'
_HELP_ACTION: Final = re.compile(r"\(\s*:action\s+help\b", re.IGNORECASE)


class TextFormat(StrEnum):
    """Version of the command and feedback texts, named after the alfworld release line."""

    V03 = "0.3"
    V04 = "0.4"

    @classmethod
    def parse(cls, value: str | TextFormat) -> TextFormat:
        """Return the member for a value given by a user, or raise `ConfigError`."""
        try:
            return cls(value)
        except ValueError:
            raise ConfigError(f"text must be one of {[str(v) for v in cls]}, got {value!r}") from None


@dataclass(frozen=True)
class GameRecord:
    """One game before compilation.

    Attributes:
        problem: PDDL problem text.
        task: The intro's last line, "Your task is to: ...".
        text_format: Format of the file's own grammar.
        solvable: What the file says, None when it says nothing.
        walkthrough: A recorded winning run, None when the file has none.
    """

    problem: str
    task: str
    text_format: TextFormat = TextFormat.V04
    solvable: bool | None = None
    walkthrough: tuple[str, ...] | None = None

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> GameRecord:
        """Check a game file's content.

        Args:
            content: A mapping with "pddl_problem" and either "grammar" (with "pddl_domain", as real files
                have) or "task" (the goal sentence, as generated records have); "solvable" and "walkthrough"
                are optional.

        Returns:
            The record.

        Raises:
            DataError: A key is missing or holds another kind of value, the grammar has no task sentence or an
                unknown put command, or domain and grammar are of different formats.
        """
        problem = _text(content, "pddl_problem")
        if "grammar" in content:
            grammar = _text(content, "grammar")
            text_format = _grammar_format(grammar)
            domain = content.get("pddl_domain")
            if isinstance(domain, str):
                _check_domain(domain, text_format)
            task = _grammar_task(grammar)
        elif "task" in content:
            text_format = TextFormat.V04
            task = announce(_text(content, "task"))
        else:
            raise DataError(f"game has neither 'grammar' nor 'task'; its keys are {sorted(map(str, content))}")
        solvable = content.get("solvable")
        if solvable is not None and not isinstance(solvable, bool):
            raise DataError(f"game key 'solvable' must be true, false or null, got {solvable!r}")
        walkthrough = content.get("walkthrough")
        if walkthrough is not None:
            if not isinstance(walkthrough, list | tuple) or not all(isinstance(w, str) for w in walkthrough):
                raise DataError("game key 'walkthrough' must be a list of commands or null")
            walkthrough = tuple(walkthrough)
        return cls(problem, task, text_format, solvable, walkthrough)


def announce(sentence: str) -> str:
    """Return the intro's last line for a goal sentence, with one full stop."""
    return f"{TASK_PREFIX}{sentence.strip().removeprefix(TASK_PREFIX).rstrip('. ')}."


def read_game_content(path: Path) -> dict[str, Any]:
    """Read one game file as a mapping.

    Args:
        path: A `game.tw-pddl` file.

    Returns:
        The JSON object.

    Raises:
        DataError: The file is missing, too large, not UTF-8, not JSON, nested too deeply, or not an object.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise DataError(f"{path} is not a regular file; expected a game.tw-pddl file")
        if size > MAX_FILE_BYTES:
            raise DataError(
                f"{path} has {size:,} bytes; game files have some 80 thousand, and at most "
                f"{MAX_FILE_BYTES:,} are read"
            )
        content = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise DataError(f"cannot read game file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); expected a game.tw-pddl file") from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path} is not whole JSON (line {error.lineno}, column {error.colno}: {error.msg}); it may be "
            "truncated: fetch it again"
        ) from error
    except RecursionError as error:
        raise DataError(f"{path} nests JSON values too deeply to be a game file") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a JSON {type(content).__name__}; expected an object with 'pddl_problem'")
    return content


def read_game_file(path: Path) -> GameRecord:
    """Read and check one game file.

    Args:
        path: A `game.tw-pddl` file.

    Returns:
        The record.

    Raises:
        DataError: See `read_game_content` and `GameRecord.from_mapping`; the message names the file.
    """
    content = read_game_content(path)
    try:
        return GameRecord.from_mapping(content)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        found = type(value).__name__ if key in content else f"keys {sorted(map(str, content))[:8]}"
        raise DataError(f"game needs a text under {key!r}, found {found}")
    return value


def _grammar_format(grammar: str) -> TextFormat:
    old, new = _OLD_PUT in grammar, _NEW_PUT in grammar
    if old == new:
        what = "both" if old else "neither"
        raise DataError(
            f"game grammar has {what} of the put commands of text format 0.3 ('put X in/on Y') and 0.4 "
            "('move X to Y'); expected exactly one"
        )
    return TextFormat.V03 if old else TextFormat.V04


def _check_domain(domain: str, text_format: TextFormat) -> None:
    domain_format = TextFormat.V04 if _HELP_ACTION.search(domain) else TextFormat.V03
    if domain_format is not text_format:
        raise DataError(
            f"game mixes formats: its grammar speaks {text_format}, its domain {domain_format}; take both "
            "from one alfworld release, or drop both keys and give the sentence as 'task'"
        )


def _grammar_task(grammar: str) -> str:
    match = TASK_RULE.search(grammar)
    if match is None:
        raise DataError("game grammar has no \"task\" rule with a sentence ('Your task is to: ...')")
    try:
        return str(json.loads(match.group(1), strict=False))
    except json.JSONDecodeError as error:
        raise DataError(f"game grammar's task sentence is not a JSON string: {error.msg}") from error

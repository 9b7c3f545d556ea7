"""The code blocks of the README and the pages."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
INDENTED = re.compile(r"^ {4}(agent-gym .*)$", re.MULTILINE)
SHELLS = ("bash", "sh", "shell", "console")
ENDS = ("&&", "||", "|", ";")
KEYWORDS = ("for", "done", "if", "fi")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: File, relative to the root.
        line: Line of its first line.
        language: What stands behind the fence.
        title: File name that the block is shown under, "" for none.
        text: What is inside.
    """

    page: str
    line: int
    language: str
    title: str
    text: str

    @property
    def place(self) -> str:
        """Where it stands, for messages and test ids."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a shell block, split into words, without variables set in front of it."""

    place: str
    words: tuple[str, ...]


@cache
def pages() -> tuple[Path, ...]:
    """Return the README, the guide for contributors and every page of the site."""
    found = [path for path in sorted(DOCS.rglob("*.md")) if "dev" not in path.relative_to(DOCS).parts]
    return (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found)


@cache
def blocks(page: Path | None = None) -> tuple[Block, ...]:
    """Return the blocks of a page, or of all pages."""
    if page is None:
        return tuple(block for one in pages() for block in blocks(one))
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    found = []
    for match in FENCE.finditer(text):
        title = TITLE.search(match[3])
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(name, line, match[2], title[1] if title else "", match[4]))
    return tuple(found)


def commands(page: Path | None = None) -> list[Command]:
    """Return every command of the shell blocks of a page, or of all pages."""
    found = []
    for block in blocks(page):
        if block.language in SHELLS:
            found += [Command(block.place, words) for words in split_commands(block.text)]
    for one in pages() if page is None else (page,):
        text = one.read_text(encoding="utf-8")
        for match in INDENTED.finditer(FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)):
            place = f"{one.relative_to(ROOT).as_posix()}:{text.count(chr(10), 0, match.start()) + 1}"
            found += [Command(place, words) for words in split_commands(match[1])]
    return found


def split_commands(text: str) -> list[tuple[str, ...]]:
    """Return the commands of shell text: continued lines joined, comments and leading variables dropped."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), ";"]:
            if word not in ENDS:
                words.append(word)
                continue
            while words and re.fullmatch(r"do|[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words and words[0] not in KEYWORDS:
                found.append(tuple(words))
            words = []
    return found

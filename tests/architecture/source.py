"""The source of the packages as the checks of this folder read it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agent_gym", "trainers", "benchmarks")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module of the packages.

    Attributes:
        path: Its file, relative to the repository.
        name: Its dotted name.
        text: Its source.
        tree: What the source says.
    """

    path: Path
    name: str
    text: str
    tree: ast.Module

    def place(self, node: ast.stmt | ast.expr) -> str:
        """Return where a node stands, as an editor opens it."""
        return f"{self.path}:{node.lineno}"

    def functions(self) -> Iterator[Function]:
        """Yield every function and method, inner ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def calls(self) -> Iterator[ast.Call]:
        """Yield every call."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def code_lines(self, node: Function) -> int:
        """Return how many lines of a function are code: no docstring, no comment, nothing blank."""
        lines = self.text.splitlines()
        documentation = {line for each in ast.walk(node) for line in _docstring_lines(each)}
        numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        texts = (lines[number - 1].strip() for number in numbers if number not in documentation)
        return sum(1 for text in texts if text and not text.startswith("#"))


def _docstring_lines(node: ast.AST) -> range:
    if not isinstance(node, Function | ast.ClassDef) or ast.get_docstring(node, clean=False) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1)


@functools.cache
def modules() -> tuple[Module, ...]:
    """Return every module of the packages."""
    return tuple(read(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def read(path: Path) -> Module:
    """Return the module of a file."""
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text("utf-8")
    return Module(relative, name, text, ast.parse(text))


def assert_none(lines: Iterable[str]) -> None:
    """Fail with the lines, one place each, if there are any."""
    found = list(lines)
    assert not found, "\n".join([f"{len(found)} found:", *found])

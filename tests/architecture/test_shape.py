"""Sizes at which a reader keeps the overview: of folders, of functions, of calls, of the training loop."""

from __future__ import annotations

import ast
from collections import Counter

import grimp

from tests.architecture.source import assert_none, modules

MOST_MODULES = 16
MOST_LINES = 60
MOST_POSITIONAL = 5
MOST_FILES_OF_THE_LOOP = 12


def test_no_folder_has_more_than_sixteen_modules() -> None:
    count = Counter(module.path.parent for module in modules() if module.path.stem != "__init__")
    assert_none(f"{folder}: {n} modules" for folder, n in count.items() if n > MOST_MODULES)


def test_no_function_has_more_than_sixty_lines_of_code() -> None:
    functions = ((module, node) for module in modules() for node in module.functions())
    lines = ((module.place(node), node.name, module.code_lines(node)) for module, node in functions)
    assert_none(f"{place} {name}: {n} lines of code" for place, name, n in lines if n > MOST_LINES)


def test_no_call_passes_more_than_five_arguments_by_position() -> None:
    calls = ((module.place(call), call) for module in modules() for call in module.calls())
    counts = ((place, ast.unparse(call.func), _positional(call)) for place, call in calls)
    assert_none(f"{place} {name}: {n} by position" for place, name, n in counts if n > MOST_POSITIONAL)


def _positional(call: ast.Call) -> int:
    return sum(not isinstance(argument, ast.Starred) for argument in call.args)


def test_the_training_loop_imports_at_most_twelve_files_of_the_trainer() -> None:
    graph = grimp.build_graph("trainers", cache_dir=None)
    files = sorted(graph.find_modules_directly_imported_by("trainers.loop"))
    assert len(files) <= MOST_FILES_OF_THE_LOOP, "\n".join([f"{len(files)} files:", *files])

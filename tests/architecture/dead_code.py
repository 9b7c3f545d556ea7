"""Names of the packages that nothing uses.

Vulture compares names only, which finds what no other place mentions. It does not see that templates read
attributes, that registries and entry points name classes in texts, that an enumeration's members come from what
users write, and that documentation is a promise: names used so are left out here, so that the list of exceptions
stays short.

A function or class that only tests reach is dead as well. Vulture sees one only where nothing else has its name, so
imports are followed too.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture
from vulture.core import Item

from tests.architecture.source import PACKAGES, ROOT, Function, Module, modules

CONFIDENCE = 60

CODE = re.compile(r"```.*?```|`[^`\n]+`|^::: .*?$", re.DOTALL | re.MULTILINE)
"""Code in Markdown, and what the reference pages are made of."""

NAMED = re.compile(r"[\w.}]+:([A-Za-z_]\w*)\"")
"""A text "module:name"."""

EXCEPTIONS = (
    # openenv, verifiers, skyrl_gym, GEM and TRL read or call these of what the adapters hand them
    "SUPPORTS_CONCURRENT_SESSIONS _step_payload _parse_result _parse_state",
    "APPENDS_SYSTEM_PROMPT SUPPORTS_RESUME EXECUTES_CODE NEEDS_CONTAINER launch runtime mcp_urls",
    "get_metrics get_reward sample_random_action spawn",
    # Gymnasium calls these of a space, and what is registered for spaces in shared memory
    "contains fn from_jsonable is_np_flattenable to_jsonable _create_empty_texts _*_shared_text*",
    # selenium, rich, tokenizers, faiss, uvicorn and gym-sokoban read these attributes
    "binary_location caption_justify decoder nprobe pre_tokenizer should_exit title_justify",
    "boxes_on_target num_env_steps player_position reward_last room_fixed room_state",
    # vLLM calls it in its workers, transformers in training
    "receive_weights on_step_begin on_step_end",
    # fields that are written out whole: the reward's parts in `info`, a measurement
    "r_att r_option w_att w_option w_price saved_mib",
    # which processes there are, for whoever watches or ends one; whether a plan is known to be a shortest one
    "optimal process_id worker_pids",
    # texts that tests compare with the documentation and with what runs write
    "ENV_METRICS EVALUATION_METRICS",
)
"""Patterns of `fnmatch` for names that are in use all the same, a comment before each group says how."""

PATTERNS = tuple(pattern for line in EXCEPTIONS for pattern in line.split())


def unused(*, with_tests: bool) -> list[str]:
    """Return the names that nothing mentions, one line each.

    Args:
        with_tests: Tests and the documentation's scripts count as users.
    """
    found = [item for item in _found(with_tests) if _dead(item)]
    return [f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}" for item in found]


def idle_exceptions() -> list[str]:
    """Return the exceptions that nothing needs any more."""
    names = {item.name for item in _found(with_tests=False)}
    return [pattern for pattern in PATTERNS if not any(fnmatch(name, pattern) for name in names)]


@functools.cache
def _found(with_tests: bool) -> tuple[Item, ...]:
    vulture = Vulture()
    vulture.scavenge([str(ROOT / folder) for folder in (*PACKAGES, *(("tests", "docs") if with_tests else ()))])
    return tuple(vulture.get_unused_code(min_confidence=CONFIDENCE))


def _dead(item: Item) -> bool:
    path = item.filename.relative_to(ROOT)
    if path.parts[0] not in PACKAGES or item.name in mentioned() or (path, item.first_lineno) in _members():
        return False
    return not _excepted(item.name)


def _excepted(name: str) -> bool:
    """Return whether a name is in use all the same; those between two underscores are Python's own."""
    if name.startswith("__") and name.endswith("__"):
        return True
    return any(fnmatch(name, pattern) for pattern in PATTERNS)


@functools.cache
def mentioned() -> frozenset[str]:
    """Return the names that templates, documentation, and texts of the form `module:name` mention."""
    texts = [path.read_text("utf-8") for package in PACKAGES for path in _files(ROOT / package, "j2", "html")]
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *_files(ROOT / "docs", "md")]
    texts += [code for path in documents for code in CODE.findall(path.read_text("utf-8"))]
    texts += [name for module in modules() for name in NAMED.findall(module.text)]
    texts += NAMED.findall((ROOT / "pyproject.toml").read_text("utf-8"))
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text))


def _files(folder: Path, *endings: str) -> Iterator[Path]:
    return (path for ending in endings for path in sorted(folder.rglob(f"*.{ending}")))


@functools.cache
def _members() -> frozenset[tuple[Path, int]]:
    """Return where members of enumerations stand."""
    nodes = ((module, node) for module in modules() for node in ast.walk(module.tree))
    classes = ((module, node) for module, node in nodes if isinstance(node, ast.ClassDef))
    enums = ((module, node) for module, node in classes if "Enum" in " ".join(map(ast.unparse, node.bases)))
    return frozenset((module.path, line.lineno) for module, node in enums for line in node.body)


def only_tested() -> list[str]:
    """Return the functions and classes at the top of modules that no module of the packages uses, one line each."""
    imported = {name for module in modules() for name in _imports(module)}
    return [
        f"{module.place(node)} {node.name}"
        for module in modules()
        for node in _unnamed(module)
        if f"{module.name}.{node.name}" not in imported
        and node.name not in mentioned()
        and not _excepted(node.name)
    ]


def _imports(module: Module) -> Iterator[str]:
    """Yield the dotted names that a module imports, and those that it reaches through an imported module."""
    packages: dict[str, set[str]] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                packages.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                packages.setdefault(alias.asname or alias.name, set()).add(alias.name)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from (f"{package}.{node.attr}" for package in packages.get(node.value.id, ()))


def _unnamed(module: Module) -> list[Function | ast.ClassDef]:
    """Return the functions and classes that their own module names nowhere else.

    Those with a decorator are left out: what it does with them is not known here.
    """
    names = [_names(statement) for statement in module.tree.body]
    count = Counter(name for each in names for name in each)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = ((node, own) for node, own in zip(module.tree.body, names, strict=True) if isinstance(node, kinds))
    plain = ((node, own) for node, own in found if not node.decorator_list or isinstance(node, ast.ClassDef))
    return [node for node, own in plain if count[node.name] == (node.name in own)]


def _names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement uses, and its texts that are one name, as in `__all__`."""
    nodes = list(ast.walk(statement))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        text for text in texts if text.isidentifier()
    }

"""Checks command lines against the real command, without running what they do."""

from __future__ import annotations

import importlib.util
import inspect
import re
import tomllib
from functools import cache
from itertools import pairwise
from typing import Any

import typer
from gymnasium.envs.registration import load_env_creator

from agent_gym.cli.main import build_app
from agent_gym.registration import find_spec
from agent_gym.terminal.options import parse_options
from tests.docs.blocks import ROOT

OWN_MODULES = ("agent_gym", "benchmarks", "trainers", "tests")
OTHERS = {"ruff", "mypy", "lint-imports", "mkdocs", "ray", "export", "cd", "alfworld-download", "tensorboard"}
"""Programs of others, whose arguments are theirs to check."""

EXAMPLES = {"first"}
"""Kinds of agents that the pages write themselves."""


@cache
def command() -> Any:
    """Return the click command of `agent-gym`."""
    return typer.main.get_command(build_app())


def check(words: tuple[str, ...]) -> None:
    """Raise unless a command line can be what it says."""
    program = words[0].rpartition("/")[2]
    checker = CHECKERS.get(program)
    if checker is not None:
        checker(list(words[1:]))
    else:
        assert program in OTHERS, f"no check for the program {program!r}: add one to tests/docs/cli.py"


def parse(arguments: list[str]) -> tuple[str, dict[str, Any], Any]:
    """Return the subcommand, its parsed arguments and its context; wrong options and values raise."""
    group, name = command(), "agent-gym"
    context = group.make_context(name, [arguments[0], "--help"], resilient_parsing=True)
    while hasattr(group, "commands"):
        assert arguments and arguments[0] in group.commands, f"{name} has no subcommand {arguments[:1]}"
        name, group, arguments = arguments[0], group.commands[arguments[0]], arguments[1:]
    if set(arguments) & {"--help", "-h"}:
        return name, {}, None
    inner = group.make_context(name, list(arguments), parent=context)
    return name, inner.params, inner


def _own(arguments: list[str]) -> None:
    name, params, context = parse(arguments)
    if not params:
        return
    if name == "train" and not (params["resume"] or params["listing"]):
        context.params["show"] = True  # resolves every setting and prints them
        context.command.invoke(context)
    env_id = params.get("env_id")
    if env_id and ":" not in env_id and name != "train":
        entry: Any = find_spec(env_id).entry_point
        known = inspect.signature(load_env_creator(entry)).parameters
        unknown = set(parse_options(params.get("option") or [])) - set(known)
        assert not unknown, f"{env_id} has no option {unknown}"
    if name == "eval" and params["agent"]:
        from benchmarks.evaluation.agents.registry import agent_kinds

        kind = params["agent"].partition(":")[0]
        assert kind in {*agent_kinds(), *EXAMPLES} or kind.startswith("$"), f"no agent {kind!r}"


def _python(arguments: list[str]) -> None:
    if arguments[:1] == ["-m"]:
        module = arguments[1]
        if module == "agent_gym":
            _own(arguments[2:])
        elif module.partition(".")[0] in OWN_MODULES:
            assert importlib.util.find_spec(module), f"no module {module}"


def _torchrun(arguments: list[str]) -> None:
    if "agent_gym" in arguments:
        _own(arguments[arguments.index("agent_gym") + 1 :])


def _pip(arguments: list[str]) -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for word in arguments:
        found = re.fullmatch(r"(?:\.|agent-gym)\[([\w,]+)\].*", word)
        if found:
            assert set(found[1].split(",")) <= extras, f"no such extra in {word}"
    if "-c" in arguments:
        assert (ROOT / arguments[arguments.index("-c") + 1]).is_file()


def _files(arguments: list[str]) -> None:
    for word in arguments:
        if not word.startswith("-") and re.match(r"(\.ci|tests|docker)\b", word):
            assert (ROOT / word.partition("::")[0]).exists(), f"no {word}"


def _docker(arguments: list[str]) -> None:
    for flag, value in pairwise(arguments):
        if flag == "-f":
            assert (ROOT / value).is_file(), f"no file {value}"
    images = {"agent-gym:cpu": [], "agent-gym:cuda": ["train"]}
    if arguments[0] == "run":
        place = next(number for number, word in enumerate(arguments) if word in images)
        _own([*images[arguments[place]], *arguments[place + 1 :]])


def _curl(arguments: list[str]) -> None:
    address = next(word for word in arguments if not word.startswith("-"))
    assert re.match(r"(http://)?(localhost|127\.0\.0\.1)[:/]", address), f"{address} is not on this machine"


CHECKERS = {
    "agent-gym": _own,
    "bash": _files,
    "curl": _curl,
    "docker": _docker,
    "pip": _pip,
    "pytest": _files,
    "python": _python,
    "python3": _python,
    "torchrun": _torchrun,
}

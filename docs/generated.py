"""Parts of the pages that are made from the code: MkDocs calls `on_page_markdown` for every page.

A line `<!-- generated: NAME -->` is replaced by what `PARTS[NAME]` returns, so that lists of ids, commands and
presets cannot go stale.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

MARKER = re.compile(r"^<!-- generated: ([a-z]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with its generated parts."""
    return MARKER.sub(lambda found: PARTS[found[1]](), markdown)


def ids() -> str:
    """Return a table of the registered ids."""
    import agent_gym
    from agent_gym.core.make import find_spec, make_env

    rows = ["| id | what | turns |", "|---|---|---:|"]
    for env_id in agent_gym.known_ids():
        env = make_env(env_id).unwrapped
        what = (inspect.getdoc(type(env)) or "").partition("\n")[0]
        named = find_spec(env_id).kwargs.get("difficulty")
        rows.append(f"| `{env_id}` | {what}{f' `difficulty={named!r}`' if named else ''} | {env.max_turns} |")  # type: ignore[attr-defined]
    return "\n".join(rows)


def presets() -> str:
    """Return a table of the training presets with the comments that they begin with."""
    from trainers.settings.reading import PRESETS, preset_names

    rows = ["| preset | what |", "|---|---|"]
    for name in preset_names():
        lines = (PRESETS / f"{name}.toml").read_text(encoding="utf-8").splitlines()
        comments = [line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines)]
        about = " ".join(comment for comment in comments if comment)
        rows.append(f"| `{name}` | {about} |")
    return "\n".join(rows)


def commands() -> str:
    """Return every subcommand with its help and options."""
    import typer

    from agent_gym.cli.main import build_app

    return "\n\n".join(_command("agent-gym", typer.main.get_command(build_app()), 1))


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if level > 1:
        yield f"{'#' * min(level, 4)} {name}"
        yield _prose(command.help or "")
    if inner is not None:
        for key in inner:
            yield from _command(f"{name} {key}", inner[key], level + 1)
        return
    rows = [_option(one) for one in command.params if one.name != "help"]
    if rows:
        yield "\n".join(["| | | |", "|---|---|---|", *rows])


def _prose(text: str) -> str:
    """Return a help text as Markdown: what stands after a `\\b` keeps its lines."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b"):
            parts.append("```text\n" + inspect.cleandoc(part.removeprefix("\b")) + "\n```")
        else:
            parts.append(part.replace("{", "&#123;").replace("<", "&lt;"))
    return "\n\n".join(parts)


def _option(option: Any) -> str:
    names = option.name.upper() if option.param_type_name == "argument" else ", ".join(option.opts)
    default = option.default if option.param_type_name != "argument" else None
    shown = "" if default in (None, (), [], False) or callable(default) else f"`{default}`"
    text = (getattr(option, "help", "") or "").replace("|", "\\|").replace("<", "&lt;")
    return f"| `{names}` | {text} | {shown} |"


PARTS: dict[str, Callable[[], str]] = {"ids": ids, "presets": presets, "commands": commands}
"""Marker -> function that makes the part."""

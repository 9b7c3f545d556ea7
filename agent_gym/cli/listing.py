"""`agent-gym list`."""

from __future__ import annotations

import inspect
import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("list")(list_environments)


def list_environments(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """List the environment ids, what they are, and their turn limits.

    An id works in `gymnasium.make("agent_gym/Sokoban-v0")`; on the command line the short form
    `Sokoban-v0` is enough. Where something that an environment needs is not installed, its row says what; in JSON
    that is its `error`, and `max_turns` is null.
    """
    rows = [_describe(env_id) for env_id in _ids()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(Column("id", no_wrap=True), "what", "max turns", box=None, pad_edge=False)
    for row in rows:
        turns = "-" if row["max_turns"] is None else str(row["max_turns"])
        table.add_row(row["id"], "; ".join(filter(None, (row["what"], row.get("error")))), turns)
    Console().print(table)


def _ids() -> list[str]:
    from agent_gym import known_ids

    return known_ids()


def _describe(env_id: str) -> dict[str, Any]:
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    spec = gym.spec(env_id)
    assert isinstance(spec.entry_point, str)
    named = spec.kwargs.get("difficulty")
    what = ""
    try:
        env_class: Any = load_env_creator(spec.entry_point)
        what = (inspect.getdoc(env_class) or "").partition("\n")[0].rstrip(".")
        what = f"{what} ({named})" if named else what
        env = env_class(**spec.kwargs)  # lists no data and generates nothing: cheap
    except Exception as error:  # of a package that is not installed, or of someone else's environment
        return {"id": env_id, "what": what, "max_turns": None, "error": " ".join(str(error).split())}
    return {"id": env_id, "what": what, "max_turns": env.max_turns}

"""The `agent-gym` command: its own subcommands and those that other packages register.

A package adds subcommands through the entry-point group `agent_gym.commands`: each entry names a function that
takes the Typer application. Errors of this package are shown as one line, without a traceback.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from importlib.metadata import EntryPoint, entry_points

import typer
from rich.console import Console

from agent_gym._version import __version__
from agent_gym.cli.search_path import working_directory_last
from agent_gym.support.errors import AgentGymError, AgentGymWarning
from agent_gym.terminal.streams import PLAIN

GROUP = "agent_gym.commands"
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

_EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "peft", "pydantic", "safetensors", "tensorboard"), "train"),
    **dict.fromkeys(("starlette", "uvicorn", "faiss", "pyarrow", "tokenizers"), "search"),
    **dict.fromkeys(("matplotlib", "psutil"), "bench"),
    "httpx": "endpoint",
    "selenium": "webshop",
    "ray": "ray",
}
"""Module of an optional package -> extra that installs it."""

_FORMAT_WARNING = warnings.formatwarning

_HELP = """Multi-turn text environments for LLM agents, and the trainer that learns in them.

\b
Start with:
    agent-gym list                                     the environments
    agent-gym play --env Sokoban-v0                    play one in the terminal
    agent-gym eval --env Sokoban-v0 --agent oracle     evaluate an agent
    agent-gym train --preset quickstart                train a small policy on the CPU

Every command explains itself with --help.
"""


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


def build_app() -> typer.Typer:
    """Return the application with every registered subcommand."""
    from agent_gym.cli import data, index, listing, play, replay, serve

    app = typer.Typer(
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        pass

    for module in (listing, play, replay, data, index, serve):
        module.register(app)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        _add(app, entry)
    return app


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    """Add the subcommands of an entry point; one that is broken does not take the others with it."""
    try:
        entry.load()(app)
    except Exception as error:  # whatever another package's module raises
        reason = " ".join(str(error).split())
        message = f"warning: the subcommands of {entry.value} are left out: {type(error).__name__}: {reason}"
        Console(stderr=True).print(message, style="yellow", highlight=False, markup=False, soft_wrap=True)


def _in_one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as it is shown; to users of the command the line of code that warns means nothing."""
    if issubclass(category, AgentGymWarning):
        return f"warning: {message}\n"
    return _FORMAT_WARNING(message, category, filename, lineno, line)


def main() -> None:
    """Run the command."""
    console = Console(stderr=True)
    working_directory_last()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)
    warnings.formatwarning = _in_one_line
    try:
        build_app()()
    except AgentGymError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        console.print("interrupted", style="red")
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        message = f"error: this needs the extra [{extra}]: pip install 'agent-gym[{extra}]' ({error})"
        console.print(message, style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(EXIT_ERROR)
    except BrokenPipeError:  # the reader of a pipe has gone, as `| head` does
        sys.stderr.close()
        sys.exit(EXIT_ERROR)
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        message = f"error: {place}{error.strerror or error}"
        console.print(message, style="red", highlight=False, markup=False, soft_wrap=True)
        try:
            sys.stdout.flush()
        except OSError:  # what is left cannot be written either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()

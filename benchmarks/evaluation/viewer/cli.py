"""`agent-gym view`."""

from __future__ import annotations

from pathlib import Path

import typer

DEFAULT_OUTPUT = Path("episodes.html")


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("view")(view)


def view(
    episodes: list[Path] = typer.Argument(
        ..., help="Episode files (JSON lines), results that they lie beside, or folders."
    ),
    output: Path = typer.Option(DEFAULT_OUTPUT, "--output", "-o", help="Page to write."),
    limit: int = typer.Option(
        5_000, "--limit", "-n", min=1, help="Episodes on the page, the first ones; more make it slow to open."
    ),
    prompts: bool = typer.Option(
        True,
        "--prompts/--no-prompts",
        help="Show prompts where the run or result beside a file says how they were made.",
    ),
    prompt: str = typer.Option(None, "--prompt", help="Prompt template, for files without a run or result."),
    history: int = typer.Option(2, "--history", min=0, help="Earlier exchanges in that prompt."),
    tokenizer: Path = typer.Option(
        None, "--tokenizer", help="Folder of the agent's tokenizer; the run's own when not given."
    ),
) -> None:
    """Write recorded episodes as one page to look through in a browser, offline.

    \b
        agent-gym view runs/quickstart-seed0/episodes/test-after.jsonl
        agent-gym view results/random.json --output random.html
        agent-gym view runs/quickstart-seed0 --limit 500
        agent-gym view episodes.jsonl --prompt compact --history 0

    The page filters by environment, type, success and stop reason, searches all texts, draws Sokoban boards, shows
    the prompt of each turn by segment, and colours sampled tokens by entropy or log-probability where recorded.
    """
    from rich.console import Console

    from agent_gym.support.errors import ConfigError
    from benchmarks.evaluation.viewer.page import write_view
    from benchmarks.evaluation.viewer.recipes import Recipe
    from benchmarks.evaluation.viewer.records import ViewOptions

    if output.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--output must end in .html, got {output}")
    recipe = None if prompt is None else Recipe(prompt, history)
    with Console(stderr=True).status("Reading episodes") as status:
        data = write_view(
            episodes,
            output,
            ViewOptions(limit, prompts, recipe, tokenizer),
            on_episode=lambda done: status.update(f"Reading episodes: {done:,}"),
        )
    shown = len(data.index)
    left = f"; the first {shown:,} of {data.total:,}, see --limit" if data.total > shown else ""
    left += f"; {data.repeated:,} that a file holds a second time are left out" if data.repeated else ""
    typer.echo(f"{shown:,} episodes in {output}, {output.stat().st_size / 1e6:.1f} MB{left}")

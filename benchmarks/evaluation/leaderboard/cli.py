"""`agent-gym leaderboard`."""

from __future__ import annotations

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("leaderboard")(leaderboard)


def leaderboard(
    results: list[Path] = typer.Argument(
        ..., help="Result files of `agent-gym eval`, leaderboard files (--json), or folders of them."
    ),
    against: str = typer.Option(
        None, "--against", help="Agent that the others are compared with; the best of each table when not given."
    ),
    env: str = typer.Option(None, "--env", "-e", help="Only environments whose id holds this."),
    split: str = typer.Option(None, "--split", help="Only this split."),
    separate: bool = typer.Option(
        False, "--separate", help="A table for each task list where results of one split differ in it."
    ),
    overview: bool = typer.Option(False, "--overview", help="One table with a line for each task list."),
    html: Path = typer.Option(None, "--html", help="Write one self-contained page."),
    markdown: Path = typer.Option(
        None, "--markdown", help="Write Markdown; into an existing file between <!-- leaderboard --> markers."
    ),
    as_json: Path = typer.Option(
        None, "--json", help="Write a small file that can be given to this command beside new results."
    ),
    title: str = typer.Option("Leaderboard", "--title", help="Title of the page."),
) -> None:
    """Compare agents by their results, task by task.

    \b
        agent-gym eval --env Sokoban-v0 --agent oracle --output results/oracle.json
        agent-gym eval --env Sokoban-v0 --agent random --output results/random.json
        agent-gym leaderboard results/*.json
        agent-gym leaderboard results --against random --html leaderboard.html --markdown leaderboard.md
        agent-gym leaderboard docs/leaderboard.json results/mine.json     beside the shipped agents

    There is a table for each environment, split, task list (by its hash) and turn limit. Differences are means over
    the tasks that both agents played, with 95 % intervals. Results of one split over different task lists are
    refused, unless --separate gives each list its own table.
    """
    from rich.console import Console

    from agent_gym.support.files import write_whole
    from benchmarks.evaluation.leaderboard import board as boards
    from benchmarks.evaluation.leaderboard import show
    from benchmarks.evaluation.leaderboard.compact import write_board_file
    from benchmarks.evaluation.leaderboard.entries import read_entries

    entries = boards.select(read_entries(results), env, split)
    board = boards.make_board(entries, against=against, separate=separate)
    console = Console()
    if overview:
        console.print(show.terminal_overview(board, console.width))
    else:
        for table in show.terminal_tables(board, console.width):
            console.print(table)
            console.print()
    if html is not None:
        from benchmarks.evaluation.leaderboard.page import render_board

        write_whole(html, render_board(board, title))
    if markdown is not None:
        show.write_markdown(markdown, show.markdown(board, overview_only=overview))
    if as_json is not None:
        write_board_file(board, as_json)
    written = [str(path) for path in (html, markdown, as_json) if path is not None]
    if written:
        console.print(f"Written: {', '.join(written)}", highlight=False, markup=False)

"""`agent-gym replay`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

EXIT_MISMATCH = 1


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("replay")(replay_file)


def replay_file(
    path: Path = typer.Argument(..., help="Episode file (JSON lines)."),
    show: bool = typer.Option(False, "--show", help="Print every turn of every episode."),
    limit: int = typer.Option(0, "--limit", min=0, help="Replay the first n episodes only; 0 is all."),
) -> None:
    """Play recorded episodes again and check that rewards, observations and flags agree.

    Training, evaluation and `agent-gym play --record` write episode files. The exit status is 1 when an
    episode does not replay to what was recorded.

    \b
        agent-gym replay runs/quickstart/episodes/test-after.jsonl
    """
    from agent_gym.play.episode import read_episodes
    from agent_gym.play.replay import replay

    console = Console()
    count = wrong = 0
    for number, episode in enumerate(read_episodes(path)):
        if limit and number >= limit:
            break
        count += 1
        if show:
            console.print(f"--- {episode.env_id} {episode.task_id}: {episode.stop_reason.value}", markup=False)
            for turn in episode.turns:
                console.print(f"{turn.observation}\n> {turn.reply}   reward {turn.reward:+.2f}", markup=False)
            console.print(episode.final_observation, markup=False)
        report = replay(episode)
        if not report.matches:
            wrong += 1
            console.print(f"episode {number} ({episode.task_id}): {report.mismatch}", markup=False, style="red")
    console.print(f"{count - wrong} of {count} episodes replay exactly", highlight=False)
    if wrong:
        raise typer.Exit(EXIT_MISMATCH)

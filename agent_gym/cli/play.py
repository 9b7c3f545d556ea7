"""`agent-gym play`: a person, the expert or chance plays in the terminal."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from agent_gym.core.replies import RejectedReply
from agent_gym.terminal.options import parse_options
from agent_gym.terminal.person import Person


class Player(StrEnum):
    """Who plays."""

    HUMAN = "human"
    ORACLE = "oracle"
    RANDOM = "random"


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("play")(play)


def play(
    env_id: str = typer.Option("Sokoban-v0", "--env", "-e", help="Environment id; `agent-gym list` shows all."),
    player: Player = typer.Option(Player.HUMAN, "--agent", "-a", help="Who plays."),
    split: str = typer.Option(None, "--split", help="Split to draw the task from."),
    seed: int = typer.Option(None, "--seed", min=0, help="Seed of the first episode."),
    task_id: str = typer.Option(None, "--task", help="Play this task."),
    option: list[str] = typer.Option([], "--option", "-o", help="Environment option, name=value; repeatable."),
    episodes: int = typer.Option(1, "--episodes", "-n", min=1, help="Episodes to play."),
    delay: float = typer.Option(0.3, "--delay", min=0.0, help="Seconds between turns of oracle and random."),
    record: Path = typer.Option(None, "--record", help="Append the episodes to this file."),
) -> None:
    """Play an environment in the terminal, or watch the expert.

    \b
        agent-gym play                                         a Sokoban room
        agent-gym play --env Sokoban-10x10-4-v0 --agent oracle
        agent-gym play --option 'size=[8,8]' --option boxes=2 --record mine.jsonl

    You may type an action, its first letters, its number, or (in Sokoban) arrow keys followed by Enter.
    """
    from agent_gym.play.driver import EnvHandle
    from agent_gym.play.episode import EpisodeWriter
    from agent_gym.play.request import EpisodeRequest
    from agent_gym.play.runner import InProcessRunner

    options = parse_options(option)
    if split is not None:
        options["split"] = split
    handle = EnvHandle.make(env_id, options)
    console = Console(highlight=False)
    writer = EpisodeWriter(record) if record else None
    with InProcessRunner((handle.env_id, options), 1) as runner:
        for number in range(episodes):
            request = EpisodeRequest(task_id, None if seed is None else seed + number)
            episode = _Table(console, handle, runner, player, delay).play(request)
            if episode is None:
                break
            if writer is not None:
                writer.write(episode)
    if writer is not None:
        writer.close()


class _Table:
    """One episode at the terminal."""

    def __init__(self, console: Console, handle: Any, runner: Any, player: Player, delay: float) -> None:
        self._console, self._handle, self._runner = console, handle, runner
        self._player, self._delay = player, delay
        self._person = Person(console, handle.env.reply_grammar)

    def play(self, request: Any) -> Any:
        """Play an episode; returns it, or None when the person quits."""
        from agent_gym.play.episode import EpisodeRecorder
        from agent_gym.play.reply import Reply

        first = self._runner.reset({0: request})[0]
        seed = self._runner.request_of(0).seed
        split = self._handle.env.tasks.split
        recorder = EpisodeRecorder(self._handle.env_id, self._handle.options, seed, first, split=split)
        self._console.print(f"[bold]{escape(first.info['goal'])}[/bold]  (task {escape(first.info['task_id'])})")
        while not recorder.over:
            self._console.print(escape(recorder.current.observation))
            reply = self._next(recorder.current.info, seed)
            if reply is None:
                return None
            parsed = self._handle.parse(reply)
            action = RejectedReply(reply, parsed.reason) if parsed.action is None else parsed.action
            observed = self._runner.step({0: action})[0]
            recorder.add(Reply(reply), parsed, observed)
            done = f"turn {observed.info['turn']}: {action}, reward {observed.reward:+.2f}"
            self._console.print(f"[dim]{escape(done)}[/dim]")
        self._console.print(escape(recorder.current.observation))
        episode = recorder.finish()
        colour = "green" if episode.success else "red"
        self._console.print(
            f"[{colour}]{episode.stop_reason.value}[/{colour}] after {len(episode.turns)} turns, "
            f"reward {episode.reward:+.2f}, score {episode.score:.2f}"
        )
        return episode

    def _next(self, info: dict[str, Any], seed: int | None) -> str | None:
        grammar = self._handle.env.reply_grammar
        if self._player is Player.HUMAN:
            return self._person.ask(info, lambda: str(self._runner.oracle([0])[0]))
        time.sleep(self._delay)
        if self._player is Player.ORACLE:
            return str(grammar.wrap(self._runner.oracle([0])[0]))
        from agent_gym.play.agents import random_action

        return str(grammar.wrap(random_action(info, seed)))

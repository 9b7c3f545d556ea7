"""`human`: a person at the terminal, judged by the same rules as every other agent."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from agent_gym.core.replies import ParsedReply, ReplyGrammar
from agent_gym.play.driver import EnvHandle, LiveEpisode
from agent_gym.play.reply import Reply
from agent_gym.play.runner import EnvRunner
from agent_gym.terminal.person import Person
from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.play_options import no_argument


class HumanAgent:
    """Asks a person for every action; the expert gives no help.

    Quitting raises KeyboardInterrupt, as Ctrl-C does: the evaluation keeps the episodes that are finished, and the
    one in progress does not count.

    Args:
        grammar: Reply grammar of the environment.
        console: Where to write.
        read: Shows a mark and returns a line.
    """

    def __init__(self, grammar: ReplyGrammar, console: Console, read: Callable[[str], str] = input) -> None:
        self._console = console
        self._person = Person(console, grammar, read)

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return the person's action in every episode, one after the other."""
        return [self._ask(episode) for episode in episodes]

    def _ask(self, episode: LiveEpisode) -> Reply:
        info = episode.info
        if not info["turn"]:
            self._console.print(f"\n[bold]{escape(info['goal'])}[/bold]  (task {escape(info['task_id'])})")
        elif not info["valid_action"]:
            self._console.print("[yellow]That was not accepted.[/yellow]")
        self._console.print(escape(episode.recorder.current.observation))
        begin = time.perf_counter()
        reply = self._person.ask(info)
        if reply is None:
            raise KeyboardInterrupt
        return Reply(reply, seconds=time.perf_counter() - begin)

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Nothing to keep: the person remembers."""


class HumanKind(AgentKind):
    """A person at the terminal, one episode at a time."""

    name = "human"
    usage = "human"
    summary = "a person at the terminal"
    interactive = True

    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Make the agent; it takes no argument."""
        no_argument(self.name, argument, settings.options)
        console = Console(file=sys.stderr, highlight=False)
        return Contestant(self.name, HumanAgent(handle.env.reply_grammar, console), most_parallel=1)

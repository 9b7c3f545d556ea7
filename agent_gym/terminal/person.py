"""A person at the terminal: lists the actions, and reads the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from agent_gym.core.replies import ReplyGrammar

_ARROWS = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[D": "left", "\x1b[C": "right"}
_COMMANDS = "a number or the start of an action, ? for the actions,{expert} q quits"


class Person:
    """Asks a person for actions.

    Args:
        console: Where to write.
        grammar: Reply grammar of the environment.
        read: Shows a mark and returns a line; raises EOFError at the end of the input.
    """

    def __init__(self, console: Console, grammar: ReplyGrammar, read: Callable[[str], str] = input) -> None:
        self._console, self._grammar, self._read = console, grammar, read

    def ask(self, info: Mapping[str, Any], expert: Callable[[], str] | None = None) -> str | None:
        """Return the next action as a reply, None when the person quits.

        Args:
            info: Info of the current state.
            expert: Returns the expert's action, which `!` then stands for.
        """
        actions: Sequence[str] = info["admissible_actions"]
        while True:
            try:
                line = self._read("> ").strip()
            except EOFError:
                return None
            if line in ("q", "quit", "exit"):
                return None
            if line == "!" and expert is not None:
                return self._grammar.wrap(expert())
            if line in ("", "?"):
                listed = "  ".join(f"{n}: {a}" for n, a in enumerate([*actions, *_forms(info)], 1))
                commands = _COMMANDS.format(expert="" if expert is None else " ! lets the expert move,")
                self._console.print(f"{escape(listed)}\n[dim]{commands}[/dim]")
                continue
            try:
                return self._grammar.wrap(complete_action(line, actions))
            except ValueError:
                forms = " or ".join(_forms(info)) or "one of the actions"
                said = f"Type {forms}, got {line!r}; ? lists the actions."
                self._console.print(f"[yellow]{escape(said)}[/yellow]")


def _forms(info: Mapping[str, Any]) -> list[str]:
    """Return the forms of free text as one would type them: `search[query]`."""
    return [form.replace("{", "").replace("}", "") for form in info["action_templates"]]


def complete_action(line: str, actions: Sequence[str]) -> str:
    """Return the action that a line means: an arrow key, a number, a unique start, or the line itself."""
    if line in _ARROWS:
        return _ARROWS[line]
    if line.isdecimal() and 1 <= int(line) <= len(actions):
        return actions[int(line) - 1]
    matching = [action for action in actions if action.startswith(line)]
    return matching[0] if len(matching) == 1 else line

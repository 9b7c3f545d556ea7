"""A small world for tests of the core: count to a number, then open the door.

Importing this module registers `toy/Door-v0` and `toy/FaultyDoor-v0`; nothing else registers them.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_gym.core import (
    ConfigError,
    DataError,
    ListTaskSet,
    Outcome,
    ReplyGrammar,
    Situation,
    Task,
    TextEnv,
)
from agent_gym.core.env import resolve_tasks

SPLITS = {"train": (0, 200), "test": (200, 320)}
PROMPT = """{% block instructions %}You stand before a door with a dial.{% endblock %}
{% block goal %}Goal: {{ goal }}{% endblock %}
{% block history %}{% for item in history %}
{{ first_shown + loop.index0 }}. saw {{ item.observation }} did {{ item.action }}
{% endfor %}{% endblock %}
{% block observation %}{{ observation }}{% endblock %}
{% block actions %}Actions: {{ (admissible_actions + action_templates) | join(", ") }}{% endblock %}
{% block format %}{% if thoughts %}Think first. {% endif %}Reply with <action>...</action>.{% endblock %}
"""
COMPACT = "{% block observation %}{{ turn }}|{{ observation }}{% endblock %}"


def write_prompts(folder: Path) -> Path:
    """Write the toy's prompt templates to a folder."""
    (folder / "prompt.j2").write_text(PROMPT, encoding="utf-8")
    (folder / "compact.j2").write_text(COMPACT, encoding="utf-8")
    return folder


class DoorEnv(TextEnv):
    """Turn a dial up and down, say something, and open the door at the right number."""

    name = "door"
    default_max_turns = 12
    reply_grammar = ReplyGrammar()
    prompt_folder = Path("no prompts unless a test sets some")
    idle_reward = -0.1

    def __init__(self, tasks: Any = None, *, split: str | None = None, **options: Any) -> None:
        given = resolve_tasks(type(self), tasks, split, {})
        if given is None:
            split = split or "train"
            if split not in SPLITS:
                raise ConfigError(f"split must be one of {list(SPLITS)}, got {split!r}")
            given = ListTaskSet(
                [
                    Task(f"door/{n}", "odd" if n % 2 else "even", split, {"target": n % 7})
                    for n in range(*SPLITS[split])
                ]
            )
        super().__init__(given, **options)
        self._dial = self._target = 0
        self._colour = ""
        self._said = ""

    def _begin(self, task: Task) -> str:
        self._target = task.record["target"]
        self._dial = int(self.np_random.integers(0, 7))
        self._colour = ("café", "√ blue", "你 red")[int(self.np_random.integers(0, 3))]
        self._said = ""
        return self._text()

    def _text(self) -> str:
        return f"The {self._colour} dial shows {self._dial}.{self._said}"

    def _act(self, action: str) -> Outcome:
        self._said = ""
        if action == "up" and self._dial < 9:
            self._dial += 1
        elif action == "down" and self._dial > 0:
            self._dial -= 1
        elif action == "open":
            if self._dial == self._target:
                return Outcome("The door opens: é √ 你.", reward=1.0, success=True, score=1.0)
            return Outcome("The door falls shut for good.", reward=-1.0, ended=True)
        elif action.startswith("say ") and len(action) <= 40:
            self._said = f" You said {action[4:]}."
        else:
            return Outcome("Nothing happens.", reward=self.idle_reward, valid=False)
        return Outcome(self._text(), reward=-0.1, extras={"door/moved": True})

    def _situation(self) -> Situation:
        moves = ("up",) * (self._dial < 9) + ("down",) * (self._dial > 0) + ("open",)
        return Situation(f"{self._colour} {self._dial}", moves, ("say {text}",))

    def _goal(self) -> str:
        return f"Open the door at {self._target}."

    def _reject(self, reason: str) -> str:
        return f"{reason} {self._text()}"

    def canonical_action(self, text: str) -> str:
        return text.strip().lower()

    def oracle_action(self) -> str:
        self._require_running()
        if self._dial == self._target:
            return "open"
        return "up" if self._dial < self._target else "down"

    def task_from_record(self, record: Any) -> Task:
        if not isinstance(record, dict) or not isinstance(record.get("target"), int):
            raise DataError(f"a door task is {{'target': int}}, got {record!r}")
        return Task("custom", "custom", "custom", dict(record))

    def render(self) -> str:
        return self._text()


class FaultyDoorEnv(DoorEnv):
    """A door whose actions can kill, hang or break its process.

    Args:
        traces: Folder where "die" and "hang" leave a file, so that they strike once; None strikes always.
        unsteady: Whether the observations hold the process id.
        fatal: Making the environment ends the process once this file is there.
    """

    def __init__(
        self,
        tasks: Any = None,
        *,
        traces: str | None = None,
        unsteady: bool = False,
        fatal: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tasks, **options)
        if fatal is not None and Path(fatal).exists():
            os._exit(1)
        self.traces = None if traces is None else Path(traces)
        self.unsteady = unsteady

    def _strikes(self, name: str) -> bool:
        if self.traces is None:
            return True
        try:
            (self.traces / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _text(self) -> str:
        return super()._text() + (f" pid {os.getpid()}" if self.unsteady else "")

    def _act(self, action: str) -> Outcome:
        kind, _, name = action.partition(" ")
        if kind == "die" and self._strikes(name):
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "hang" and self._strikes(name):
            time.sleep(600)
        if kind == "break":
            raise KeyError("a fault deep inside")
        if kind in ("die", "hang"):
            return Outcome(self._text(), reward=0.25)
        return super()._act(action)


gym.register("toy/Door-v0", entry_point="tests.toy:DoorEnv", disable_env_checker=True)
gym.register("toy/FaultyDoor-v0", entry_point="tests.toy:FaultyDoorEnv", disable_env_checker=True)

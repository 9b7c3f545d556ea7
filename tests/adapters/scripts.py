"""Episodes played through `gym.make`, which the other frameworks' loops must repeat.

A quarter each: the expert, chance, chance with replies that hold no action, and the expert with thoughts, full
stops and capitals that lenient parsing takes away. So there are wins, turn limits and rejected replies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_gym  # noqa: F401 (registers the ids)
from agent_gym.play.agents import random_action
from agent_gym.support.arithmetic import added
from agent_gym.wrappers import ReplyWrapper

ENV_ID = "agent_gym/Sokoban-v0"
OPTIONS = {"split": "valid", "max_turns": 9}
MOVES = ("up", "down", "left", "right", "fly")


@dataclass
class Script:
    task_id: str
    seed: int
    replies: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    terminated: bool = False
    truncated: bool = False

    @property
    def total(self) -> float:
        return added(self.rewards)

    @property
    def ending(self) -> tuple[Any, ...]:
        return self.info["success"], self.terminated, self.truncated, self.info["stop_reason"], self.info["anchor"]


def scripts(env_id: str = ENV_ID, options: dict[str, Any] = OPTIONS, count: int = 20) -> list[Script]:
    env = ReplyWrapper(gym.make(env_id, **options))
    inner = env.unwrapped
    played = []
    for number in range(count):
        script = Script(inner.tasks.ids[number], seed=100 + number)
        _, info = env.reset(seed=script.seed, options={"task_id": script.task_id})
        while not (script.terminated or script.truncated):
            turn = len(script.replies)
            action = inner.oracle_action() if number % 4 in (0, 3) else random_action(info, script.seed)
            reply = inner.reply_grammar.wrap(action)
            if number % 4 == 2 and turn % 3 == 1:
                reply = "I had better think about this."
            if number % 4 == 3 and env_id == ENV_ID:
                reply = f"<think>Go {action}?</think> So: <action>{action.capitalize()}.</action><|im_end|>"
            _, reward, script.terminated, script.truncated, info = env.step(reply)
            script.replies.append(reply)
            script.rewards.append(reward)
        script.info = info
        played.append(script)
    return played


def rows(played: list[Script]) -> list[dict[str, Any]]:
    return [{"task_id": script.task_id, "seed": script.seed} for script in played]


def run_documented(heading: str, **scope: Any) -> None:
    """Run the code of a section of docs/adapters.md as it stands."""
    page = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"
    section = page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert found, heading
    exec(compile(found[1], f"docs/adapters.md, {heading}", "exec"), scope)

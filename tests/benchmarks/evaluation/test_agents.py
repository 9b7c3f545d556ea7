"""Agents without a model: a person, and kinds that other packages add."""

from __future__ import annotations

import dataclasses
import io
import re
import sys

import pytest
from rich.console import Console

import tests.toy  # noqa: F401  registers toy/Door-v0
from agent_gym.play.driver import EnvHandle
from agent_gym.support.errors import ConfigError
from benchmarks.evaluation.agents import Contestant, agent_kinds, find_kind, make_agent
from benchmarks.evaluation.agents.human import HumanAgent
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.run import evaluate
from tests.cli.command import ROOT

DOOR = "toy/Door-v0"


class Keyboard:
    """Types lines, then the end of the input."""

    def __init__(self, *lines):
        self.lines, self.screen = list(lines), io.StringIO()

    def read(self, mark):
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def agent(self, handle):
        console = Console(file=self.screen, width=100)
        return Contestant("human", HumanAgent(handle.env.reply_grammar, console, self.read), most_parallel=1)


def test_a_person_plays_one_episode_after_the_other_by_the_rules_of_all():
    keyboard = Keyboard("?", "say hello", "open", "!", "ope", "open")
    result = evaluate(EvalConfig(DOOR, episodes=2, max_turns=3), keyboard.agent)
    shown = keyboard.screen.getvalue()
    assert result.summary.n_ok == 2
    assert "1: " in shown and "the expert" not in shown
    goals = [match.start() for match in re.finditer(r"\(task door/", shown)]
    assert len(goals) == 2
    assert [row.seconds > 0 for row in result.rows] == [True, True]


def test_a_person_who_leaves_keeps_what_is_finished(tmp_path):
    config = EvalConfig(DOOR, episodes=3, output=tmp_path / "r.json")
    with pytest.raises(KeyboardInterrupt):
        evaluate(config, Keyboard("open", "say x", "q").agent)
    plans = []
    keyboard = Keyboard("open", "open")
    result = evaluate(
        dataclasses.replace(config, resume=True), keyboard.agent, on_plan=lambda *plan: plans.append(plan)
    )
    assert plans == [(3, 1)]
    assert result.complete


def test_the_command_leaves_the_terminal_to_the_person():
    assert find_kind("human").interactive
    assert not find_kind("oracle").interactive
    assert make_agent("human", EnvHandle.make(DOOR, {})).most_parallel == 1


def install(folder, monkeypatch, entries, source):
    """Make a distribution whose entry points name agents, as pip would."""
    info = folder / "my_agents-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-agents\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agent_gym.agents]\n{entries}\n")
    (folder / "my_agents.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_agents", raising=False)


def test_the_documented_agent_plays_once_its_package_is_installed(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
    sources = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (source,) = (source for source in sources if "class FirstKind" in source)
    install(tmp_path, monkeypatch, "first = my_agents:FirstKind", source)
    result = evaluate(EvalConfig(DOOR, episodes=4), "first:1")
    assert result.header["agent"] == {"spec": "first:1", "reply_mode": "lenient", "place": 1}
    assert result.summary.n_ok == 4
    assert list(agent_kinds())[-1] == "first"
    with pytest.raises(ConfigError, match=r"Did you mean 'first'.*openai:MODEL@URL, first"):
        evaluate(EvalConfig(DOOR), "frist")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("broken = my_agents:Missing", "cannot be loaded"),
        ("broken = my_agents:Other", "expected a subclass of"),
        ("oracle = my_agents:Other", "has the name of a bundled agent"),
    ],
)
def test_a_faulty_package_is_named_and_hinders_no_other_agent(tmp_path, monkeypatch, entries, said):
    install(tmp_path, monkeypatch, entries, "class Other:\n    name = 'broken'\n")
    assert evaluate(EvalConfig(DOOR, episodes=1), "oracle").summary.n_ok == 1
    with pytest.raises(ConfigError, match=said):
        evaluate(EvalConfig(DOOR, episodes=1), "broken")

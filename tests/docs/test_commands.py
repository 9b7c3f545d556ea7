"""Every command on the pages exists, with the options and values it is given; short sessions are run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, ROOT, Command, commands, split_commands
from tests.docs.cli import check, command

ALL = commands()
SMALL = (
    "iterations=1",
    "cloning.episodes=48",
    "cloning.epochs=1",
    "rollout.groups=2",
    "rollout.group_size=2",
    "evaluation.episodes=4",
    "run.threads=1",
)
"""What makes a training command short."""
EPISODES = "5"
LONG = {"--suite", "leaderboard", "view", "serve"}
"""What is checked only: suites play every environment, the pages of results have tests of their own."""


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place}-{' '.join(one.words)[:50]}")
def test_commands_on_the_pages_are_accepted(one: Command, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    check(one.words)


def test_wrong_commands_would_be_noticed(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    for line in (
        "agent-gym evaluate --env Sokoban-v0",
        "agent-gym eval --env Sokoban-v0 --agents oracle",
        "agent-gym eval --env Sokoban-v1 --agent oracle",
        "agent-gym eval --env Sokoban-v0 --agent oracle --option sise=6",
        "agent-gym train --preset quickstart rollout.group=3",
        "agent-gym train --preset quickstrat",
        "pip install 'agent-gym[everything]'",
        "rm -rf results",
    ):
        with pytest.raises((Exception, SystemExit)):
            check(split_commands(line)[0])


@pytest.fixture
def _signals() -> Iterator[None]:
    """Training takes over Ctrl-C; give it back."""
    kept = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in kept:
        signal.signal(number, handler)


def shortened(words: tuple[str, ...]) -> list[str]:
    """Return the arguments of an `agent-gym` command with small numbers."""
    arguments = list(words[1:])
    if "--episodes" in arguments:
        arguments[arguments.index("--episodes") + 1] = EPISODES
    if arguments[0] == "train" and not set(arguments) & {"--list", "--resume", "--estimate", "--show"}:
        arguments += SMALL
    return arguments


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
@pytest.mark.usefixtures("_signals")
def test_the_sessions_of_the_first_pages_run_from_top_to_bottom(
    page: str, tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_GYM_DATA", str(world))
    (tmp_path / "run.toml").write_bytes((world / "run.toml").read_bytes())
    ran = []
    for one in commands(ROOT / page):
        if one.words[0] != "agent-gym" or set(one.words) & LONG or any("openai:" in word for word in one.words):
            continue
        arguments = shortened(one.words)
        if arguments[0] == "play" and "--agent" not in arguments:
            continue  # waits for a person
        command().main(arguments, standalone_mode=False)
        ran.append(arguments[0])
    assert {"list", "train", "eval", "report"} <= set(ran)


def test_every_command_has_a_page() -> None:
    text = (DOCS / "reference" / "commands.md").read_text("utf-8")
    assert "<!-- generated: commands -->" in text

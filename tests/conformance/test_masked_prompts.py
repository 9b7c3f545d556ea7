"""A prompt without its goal segment does not hold the goal, and nothing but the masked segments is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_gym.core.prompts import Exchange, PromptBuilder, PromptTemplate, Segment, template_for
from tests.conformance.subjects import TOY, inner, make, spread
from tests.toy import COMPACT, PROMPT

MASK = (Segment.GOAL, Segment.HISTORY)
NOTHING = "no such action"
TURNS = 5


def templates(env: Any) -> list[PromptTemplate]:
    """Return every prompt template of an environment."""
    if inner(env).spec is not None and inner(env).name == "door":
        return [PromptTemplate(PROMPT), PromptTemplate(COMPACT)]
    return [template_for(env, path.stem) for path in sorted(Path(inner(env).prompt_folder).glob("*.j2"))]


def states(env: Any) -> Iterator[tuple[dict[str, Any], list[Exchange]]]:
    """Play a few turns of two tasks: a rejected action, then what the oracle does."""
    for task in spread(env, 2):
        _, info = env.reset(seed=3, options={"task_id": task})
        history: list[Exchange] = []
        for turn in range(TURNS):
            yield info, history
            action = NOTHING if turn == 1 else inner(env).oracle_action()
            before = info["prompt_observation"]
            _, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
            history.append(Exchange(before, action))


def words(text: str) -> str:
    """Return the words and numbers of a text, so that layout and punctuation do not hide a goal."""
    return " ".join(re.findall(r"\w+", text.lower()))


def test_the_goal_is_nowhere_in_a_prompt_without_goal_and_history(env_id: str) -> None:
    env = make(env_id)
    found = templates(env)
    assert found
    for info, history in states(env):
        for template in found:
            prompt = PromptBuilder(template).prompt(info, history)
            left = words(prompt.masked(MASK).text())
            # A template for small models may show the goal in words of its own.
            for goal in (words(info["goal"]), words(prompt.segments.get(Segment.GOAL, ""))):
                assert not goal or goal not in left, template.name
            if template.name.endswith("prompt.j2"):
                assert words(info["goal"]) in words(prompt.segments[Segment.GOAL])


def test_masking_changes_goal_and_history_only(env_id: str) -> None:
    env = make(env_id)
    for info, history in states(env):
        for template in templates(env):
            prompt = PromptBuilder(template).prompt(info, history)
            masked = prompt.masked(MASK)
            for segment in Segment:
                expected = "" if segment in MASK else prompt.segments.get(segment, "")
                assert masked.segments.get(segment, "") == expected


@pytest.mark.parametrize("name", ["prompt", "compact"])
def test_a_template_that_shows_the_goal_elsewhere_would_be_noticed(name: str) -> None:
    leaky = PromptTemplate("{% block observation %}{{ goal }} {{ observation }}{% endblock %}", name)
    env = make(TOY)
    info, history = next(states(env))
    text = PromptBuilder(leaky).prompt(info, history).masked(MASK).text()
    assert words(info["goal"]) in words(text)

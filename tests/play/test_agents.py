"""Chance: uniform over what is offered, fixed by seed, task and turn."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agent_gym.play.agents import random_action


def info(turn: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "task_id": "t",
        "turn": turn,
        "goal": "Find the red mug.",
        "admissible_actions": ("a", "b"),
        "action_templates": ("search[{query}]",),
        **changes,
    }


def test_every_action_and_template_is_drawn_about_equally_often() -> None:
    drawn = Counter(random_action(info(), seed)[:6] for seed in range(900))
    assert set(drawn) == {"a", "b", "search"}
    assert all(240 <= count <= 360 for count in drawn.values())


def test_blanks_are_filled_with_words_of_the_goal() -> None:
    actions = {random_action(info(admissible_actions=()), seed) for seed in range(60)}
    assert actions == {f"search[{word}]" for word in ("Find", "the", "red", "mug")}
    assert random_action(info(admissible_actions=(), goal="?"), 1) == "search[thing]"


def test_the_draw_depends_on_seed_task_and_turn_only() -> None:
    assert random_action(info(), 3) == random_action(info(), 3)
    many = [tuple(random_action(info(turn, task_id=task), seed) for turn in range(8)) for task, seed in
            (("t", 0), ("t", 1), ("u", 0))]  # fmt: skip
    assert len(set(many)) == 3


def test_a_state_that_offers_nothing_gets_an_action_all_the_same() -> None:
    assert random_action(info(admissible_actions=(), action_templates=()), 0) == "none"

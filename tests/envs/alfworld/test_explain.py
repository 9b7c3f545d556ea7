"""Explained rejections say what is wrong and give nothing away."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.alfworld.world.engine import FeedbackStyle
from agent_gym.envs.alfworld.world.gamefile import TextFormat
from tests.envs.alfworld.tiny import start

AT_COUNTER = ("go to countertop 1", "take knife 1 from countertop 1")


@pytest.mark.parametrize(
    ("before", "command", "reason"),
    [
        ((), "fly home", "No command starts with 'fly'; commands start with go, open, close, take, move, "),
        ((), "go desk 1", "The form of this command is: go to (receptacle)."),
        ((), "go to moon 1", "There is no receptacle 'moon 1' in this room."),
        ((), "take mug 1 from desk 1", "You are not at desk 1; go to it first."),
        ((), "take mug 1", "The form of this command is: take (object) from (receptacle)."),
        ((), "put mug 1 in/on desk 1", "No command starts with 'put'"),
        ((), "look up", "The form of this command is: look."),
        (("go to cabinet 2",), "take mug 2 from cabinet 2", "cabinet 2 is closed; open it first."),
        (("go to cabinet 2",), "close cabinet 2", "cabinet 2 is already closed."),
        (("go to desk 1",), "open desk 1", "desk 1 has no door."),
        (("go to desk 1",), "go to desk 1", "You are already at desk 1."),
        (("go to desk 1",), "take mug 1 from desk 1", "You see no 'mug 1' in or on desk 1."),
        (("go to desk 1",), "take lamp 1 from desk 1", "lamp 1 cannot be picked up."),
        (("go to desk 1",), "use book 1", "You see no 'book 1' here that can be switched on."),
        (AT_COUNTER, "take apple 1 from countertop 1", "Your hands are full: you are carrying knife 1."),
        (AT_COUNTER, "move apple 1 to countertop 1", "You are not carrying 'apple 1'."),
        (AT_COUNTER, "heat knife 1 with countertop 1", "countertop 1 cannot heat things; use a microwave."),
        (AT_COUNTER, "slice mug 1 with knife 1", "There is no 'mug 1' here that can be sliced."),
        ((*AT_COUNTER, "go to desk 1"), "move knife 1 to desk 1", "desk 1 is no place for knife 1."),
        ((*AT_COUNTER, "go to microwave 1"), "heat knife 1 with microwave 1", "You cannot heat knife 1."),
    ],
)
def test_the_reason_follows_the_original_text(before: tuple[str, ...], command: str, reason: str) -> None:
    state = start("place", *before, feedback=FeedbackStyle.EXPLAIN)
    assert state.step(command).startswith(f"Nothing happens. {reason}")


WORDS = [
    *(
        "go to",
        "open",
        "close",
        "take",
        "move",
        "put",
        "heat",
        "cool",
        "clean",
        "use",
        "slice",
        "examine",
        "look",
        "help",
    ),
    *(
        "from",
        "to",
        "with",
        "in/on",
        "mug",
        "knife",
        "apple",
        "lamp",
        "cabinet",
        "countertop",
        "microwave",
        "1",
        "2",
    ),
]


@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(WORDS),
        max_size=8,
    ),
    text_format=st.sampled_from(list(TextFormat)),
)
def test_every_text_gets_its_effect_or_a_reason(words: list[str], text_format: TextFormat) -> None:
    command = " ".join(words)
    explained = start("place", *AT_COUNTER, feedback=FeedbackStyle.EXPLAIN, text_format=text_format)
    plain = start("place", *AT_COUNTER, text_format=text_format)
    long, short = explained.step(command), plain.step(command)
    assert long == short or (
        short == "Nothing happens." and long.startswith("Nothing happens. ") and len(long) > 20
    )
    assert explained.key() == plain.key()

"""What is shown where a terminal's encoding lacks a sign."""

from __future__ import annotations

from agent_gym.terminal.streams import PLAIN

MINUS = "\N{MINUS SIGN}"


def test_a_terminal_without_the_minus_sign_keeps_the_sign_of_a_number() -> None:
    shown = f"{MINUS}0.6 \N{EN DASH}\N{EM DASH} a\N{HORIZONTAL ELLIPSIS} \N{SNOWMAN}"
    assert shown.encode("ascii", PLAIN) == b"-0.6 -- a... ?"
    assert f"{MINUS}\N{SNOWMAN}".encode("utf-8", PLAIN).decode() == f"{MINUS}\N{SNOWMAN}"

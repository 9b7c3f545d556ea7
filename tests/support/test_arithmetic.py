"""Sums that do not depend on the version of Python."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.arithmetic import added


def test_ten_steps_cost_what_adding_them_in_turn_gives():
    # `sum` of Python 3.12 and later says -1.0.
    assert added([-0.1] * 10) == -0.9999999999999999


@given(st.lists(st.floats(-1e6, 1e6)))
def test_numbers_are_added_from_left_to_right(values):
    total = 0.0
    for value in values:
        total += value
    assert added(values) == total

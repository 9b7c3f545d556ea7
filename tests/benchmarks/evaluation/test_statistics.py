from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evaluation.statistics import pass_at_k, pass_hat_k


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_at_k_and_pass_hat_k_equal_brute_force_over_subsets(attempts, k):
    won, tried = [sum(attempts)], [len(attempts)]
    if k > len(attempts):
        assert pass_at_k(won, tried, k) is None
        assert pass_hat_k(won, tried, k) is None
        return
    draws = list(combinations(attempts, k))
    assert pass_at_k(won, tried, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(won, tried, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_pass_at_k_is_unbiased_over_unequal_numbers_of_valid_attempts():
    rng = np.random.default_rng(0)
    chance = rng.random(4000)
    tried = rng.integers(2, 6, 4000)
    won = rng.binomial(tried, chance)
    assert pass_at_k(won, tried, 2) == pytest.approx(np.mean(1 - (1 - chance) ** 2), abs=0.015)
    assert pass_hat_k(won, tried, 2) == pytest.approx(np.mean(chance**2), abs=0.015)


def test_tasks_with_too_few_attempts_are_left_out_and_impossible_counts_refused():
    assert pass_at_k([1, 0], [1, 3], 2) == 0.0
    with pytest.raises(ValueError, match="successes"):
        pass_at_k([2], [1], 1)
    with pytest.raises(ValueError, match="k must be"):
        pass_at_k([1], [1], 0)

"""The checks of generated SearchQA worlds, and the speed of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.support.errors import DataError
from benchmarks.measure.searchqa import check_world
from benchmarks.measure.throughput.searchqa import make_searchqa, measure_searchqa


def test_the_expert_wins_and_one_search_shows_answers_of_one_hop_only() -> None:
    tallies = check_world(questions=30, entities=400)
    assert sum(tallies[f"{hops} hops"].questions for hops in range(1, 5)) == 120
    for name, tally in tallies.items():
        shares = tally.shares()
        assert shares["oracle_em"] == 1.0, (name, tally.missed)
        if name.endswith("hops"):
            assert shares["one_search"] == (1.0 if name == "1 hops" else 0.0)


@pytest.mark.slow
def test_a_thousand_questions_a_hop_keep_the_release_bounds() -> None:
    for name, tally in check_world(questions=1_000, entities=10_000).items():
        shares = tally.shares()
        assert shares["oracle_em"] >= 0.99, (name, tally.missed[:3])
        if name.endswith("hops"):
            assert shares["guesser_em"] <= 0.01
            assert name == "1 hops" or shares["one_search"] < 0.02


def test_speed_is_measured_with_its_share_of_retrieval() -> None:
    figures = measure_searchqa(SearchQAEnv(split="test", entities=100, worlds=1, max_turns=4), 0.01, 1)
    assert figures["passages"] == 100
    assert all(figures[key] > 0 for key in ("steps_per_s", "starts_per_s", "searches_per_s"))
    assert figures["retrieval_share"] > 0


def test_a_folder_without_a_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no corpus"):
        make_searchqa(tmp_path)

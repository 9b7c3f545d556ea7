"""Scores of answers: the published normaliser with its oddities, and the strict one without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.envs.searchqa.questions.rewards import RewardKind, answer_reward
from agent_gym.envs.searchqa.questions.scoring import Scoring, mentions_answer, normalise_squad, score_answer

SAME_IN_BOTH = [
    ("The Beatles", "beatles"),
    ("1,000", "1000"),
    ("U.S.", "US"),
    ("  New   York ", "new york"),
    ("Rush.", "Rush"),
]
DIFFERENT_IN_BOTH = [("Paris", "London"), ("1989", "1990"), ("Neil Peart", "Neil")]
STRICT_ONLY_SAME = [
    ("Jean-Luc", "Jean Luc"),
    ("Beyoncé", "Beyonce"),
    ("Beyonce\u0301", "Beyonc\u00e9"),
    ("O\u2019Neill", "O'Neill"),
    ("1989\u20131990", "1989-1990"),
    ("20 June 1837", "June 20, 1837"),
    ("five", "5"),
    ("twenty-one", "21"),
]
SQUAD_ONLY_SAME = [("3.5", "35"), ("-5", "5"), ("A", "the"), ("1989-1990", "19891990")]


@pytest.mark.parametrize("scoring", Scoring)
@pytest.mark.parametrize(("one", "other"), SAME_IN_BOTH)
def test_spelling_is_no_difference_in_either_scoring(scoring: Scoring, one: str, other: str) -> None:
    assert score_answer(one, [other], scoring).em
    assert score_answer(other, [one], scoring).em


@pytest.mark.parametrize("scoring", Scoring)
@pytest.mark.parametrize(("one", "other"), DIFFERENT_IN_BOTH)
def test_different_answers_are_wrong(scoring: Scoring, one: str, other: str) -> None:
    assert not score_answer(one, [other], scoring).em


@pytest.mark.parametrize(("one", "other"), STRICT_ONLY_SAME)
def test_strict_scoring_accepts_what_means_the_same_and_squad_keeps_the_published_no(one: str, other: str) -> None:
    assert score_answer(one, [other], Scoring.STRICT).em
    assert not score_answer(one, [other], Scoring.SQUAD).em


@pytest.mark.parametrize(("one", "other"), SQUAD_ONLY_SAME)
def test_strict_scoring_refuses_what_differs_and_squad_keeps_the_published_yes(one: str, other: str) -> None:
    assert not score_answer(one, [other], Scoring.STRICT).em
    assert score_answer(one, [other], Scoring.SQUAD).em


@pytest.mark.parametrize("scoring", Scoring)
@pytest.mark.parametrize("gold", ["", " ", "the", "...", "Paris"])
def test_an_empty_prediction_is_wrong(scoring: Scoring, gold: str) -> None:
    for nothing in ("", "  ", "\n"):
        assert score_answer(nothing, [gold], scoring) == (False, 0.0, False)


@pytest.mark.parametrize("scoring", Scoring)
@pytest.mark.parametrize("lone", ["A", "the", "+", "...", "C++"])
def test_an_answer_of_articles_or_signs_equals_itself(scoring: Scoring, lone: str) -> None:
    assert score_answer(lone, [lone], scoring).em


def test_programming_languages_differ_in_strict_scoring() -> None:
    assert not score_answer("C", ["C++"], Scoring.STRICT).em


def test_f1_is_the_overlap_of_token_multisets_over_the_best_gold() -> None:
    assert score_answer("the red red car", ["red car", "blue"]).f1 == pytest.approx(2 * 2 / 5)
    assert score_answer("green", ["red car"]).f1 == 0.0


def test_yes_and_no_earn_f1_only_when_equal() -> None:
    assert score_answer("yes it is", ["yes"]).f1 == 0.0
    assert score_answer("Yes.", ["yes"]).f1 == 1.0


def test_sub_em_asks_whether_a_gold_is_inside_the_prediction() -> None:
    assert score_answer("It was Rush, I think", ["Rush"]).sub_em
    assert not score_answer("Rush", ["Rush band"]).sub_em


def test_mentions_are_whole_words() -> None:
    assert mentions_answer("The band Rush toured.", ["rush"])
    assert not mentions_answer("They were rushing.", ["rush"])


@given(st.text(max_size=40))
def test_every_answer_with_content_equals_itself(text: str) -> None:
    for scoring in Scoring:
        assert score_answer(text, [text], scoring).em == bool(text.strip())


@given(st.text(max_size=30), st.text(max_size=30))
def test_scores_stay_in_their_ranges_and_em_implies_the_others(one: str, other: str) -> None:
    for scoring in Scoring:
        scores = score_answer(one, [other], scoring)
        assert 0.0 <= scores.f1 <= 1.0
        if scores.em and normalise_squad(other):
            assert scores.f1 == pytest.approx(1.0) or scoring is Scoring.STRICT


class TestRewards:
    @pytest.mark.parametrize(
        ("correct", "well_formed", "retrieved", "reward"),
        [
            (True, True, False, 1.0),
            (True, False, True, 0.8),
            (False, True, False, 0.2),
            (False, False, False, 0.1),
            (False, False, True, 0.1),
        ],
    )
    def test_the_format_variant_is_the_published_table(
        self, correct: bool, well_formed: bool, retrieved: bool, reward: float
    ) -> None:
        for kind in (RewardKind.FORMAT, RewardKind.FORMAT_RETRIEVAL):
            found = answer_reward(kind, correct=correct, well_formed=well_formed, retrieved_gold=retrieved)
            assert found == pytest.approx(reward)

    def test_only_the_retrieval_variant_looks_at_retrieved_text(self) -> None:
        rewards = {
            kind: answer_reward(kind, correct=False, well_formed=True, retrieved_gold=True) for kind in RewardKind
        }
        assert rewards == {RewardKind.EM: 0.0, RewardKind.FORMAT: 0.2, RewardKind.FORMAT_RETRIEVAL: 0.3}

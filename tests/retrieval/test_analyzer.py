from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.retrieval.lexical.analyzer import LONGEST, STOP_WORDS, EnglishAnalyzer
from agent_gym.retrieval.lexical.porter import stem

ANALYZER = EnglishAnalyzer()

# Examples of Porter's paper, by step, and of the departures in his own code.
STEMS = {
    "caresses": "caress",
    "ponies": "poni",
    "cats": "cat",
    "feed": "feed",
    "agreed": "agre",
    "plastered": "plaster",
    "bled": "bled",
    "motoring": "motor",
    "sing": "sing",
    "conflated": "conflat",
    "troubled": "troubl",
    "sized": "size",
    "hopping": "hop",
    "falling": "fall",
    "hissing": "hiss",
    "fizzed": "fizz",
    "failing": "fail",
    "filing": "file",
    "happy": "happi",
    "sky": "sky",
    "relational": "relat",
    "rational": "ration",
    "vietnamization": "vietnam",
    "triplicate": "triplic",
    "hopefulness": "hope",
    "replacement": "replac",
    "adoption": "adopt",
    "probate": "probat",
    "rate": "rate",
    "controlling": "control",
    "roll": "roll",
    "technology": "technolog",
    "possibly": "possibl",
    "by": "by",
    "as": "as",
}


@pytest.mark.parametrize("word", STEMS)
def test_words_are_stemmed_as_porter_and_his_own_code_do(word):
    assert stem(word) == STEMS[word]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it's 5.5\" x 3,000", ["it's", "5.5", "x", "3,000"]),
        ("a.b.c x:y 1:2 a,b", ["a.b.c", "x:y", "1", "2", "a", "b"]),
        ("12oz x2 2-pack 5/8", ["12oz", "x2", "2", "pack", "5", "8"]),
        ("foo_bar __ _x_", ["foo_bar", "_x_"]),
        ("50% off & more...", ["50", "off", "more"]),
        ("café – naïve", ["café", "naïve"]),
        ("nai\u0308ve", ["nai\u0308ve"]),
        ("½ cup ²", ["cup"]),
        ("日本語テスト", ["日", "本", "語", "テスト"]),
        ("ひら", ["ひ", "ら"]),
        ("👍🏽 ok ™ 👨\u200d👩", ["👍🏽", "ok", "™", "👨\u200d👩"]),
        ("\uff92\uff9f", ["\uff92\uff9f"]),
        ("", []),
    ],
)
def test_words_follow_the_unicode_boundaries(text, words):
    assert ANALYZER.words(text) == words


def test_possessives_stop_words_and_case_do_not_reach_the_index():
    assert ANALYZER.terms("The Men's and the women’s Running SHOES") == ["men", "women", "run", "shoe"]
    assert ANALYZER.terms(" ".join(STOP_WORDS)) == []


def test_long_words_are_cut_into_pieces():
    assert [len(word) for word in ANALYZER.words("x" * 600)] == [LONGEST, LONGEST, 90]


@given(st.text())
def test_every_text_has_words_that_are_slices_of_it_in_order(text):
    at = 0
    for word in ANALYZER.words(text):
        at = text.index(word, at) + len(word)
        assert word


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_grammar_is_the_same_for_plain_and_for_other_texts(text):
    assert ANALYZER.words(text) == ANALYZER.words(text + "\n–")

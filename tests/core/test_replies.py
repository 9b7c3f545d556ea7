"""From a model's reply to an action."""

from __future__ import annotations

import copy
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.replies import ParsedReply, RejectedReply, ReplyGrammar, ReplyMode, ThoughtRule, parse_reply

GRAMMAR = ReplyGrammar()
SEARCH = ReplyGrammar({"search": "search[{}]", "answer": "answer[{}]"})
LENIENT, STRICT = ReplyMode.LENIENT, ReplyMode.STRICT
# Pieces that replies are made of, so that random joins hit the grammar's corners.
PIECES = st.sampled_from(
    [f"<{slash}{tag}>" for tag in ("think", "action", "search", "answer") for slash in ("", "/")]
    + [*"\n <>.'`", '"', "</", "{}", "{0}", "up", "é 你", "<|im_end|>", "</s>", "\ud800", "\x00"]
)
REPLIES = st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=25).map("".join)


def strict(text: str, grammar: ReplyGrammar = GRAMMAR) -> ParsedReply:
    return parse_reply(text, grammar, STRICT)


def lenient(text: str, grammar: ReplyGrammar = GRAMMAR) -> ParsedReply:
    return parse_reply(text, grammar, LENIENT)


class TestWellFormedReplies:
    @pytest.mark.parametrize("mode", ReplyMode)
    def test_thought_and_action(self, mode: ReplyMode) -> None:
        parsed = parse_reply("<think>north is free</think>\n<action>up</action>", GRAMMAR, mode)
        assert parsed == ("north is free", "up", True, "")

    @pytest.mark.parametrize("mode", ReplyMode)
    def test_an_optional_thought_may_be_missing(self, mode: ReplyMode) -> None:
        assert parse_reply(" <action> up </action> ", GRAMMAR, mode) == ("", "up", True, "")

    def test_search_tags_become_the_actions_of_their_form(self) -> None:
        assert strict("<search>who {was} it?</search>", SEARCH).action == "search[who {was} it?]"
        assert strict("<answer>U.S.</answer>", SEARCH).action == "answer[U.S.]"

    @pytest.mark.parametrize("mode", ReplyMode)
    def test_a_lone_closing_think_tag_ends_a_thought_that_the_template_opened(self, mode: ReplyMode) -> None:
        parsed = parse_reply("go <action>left</action> or\n</think><action>up</action>", GRAMMAR, mode)
        assert parsed == ("go <action>left</action> or", "up", True, "")

    def test_the_default_grammar_is_thought_and_action(self) -> None:
        assert parse_reply("<action>up</action>").action == "up"


class TestRepliesThatBreakTheGrammar:
    @pytest.mark.parametrize("mode", ReplyMode)
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("hello", "holds no action"),
            ("", "holds no action"),
            ("superb", "holds no action"),
            ("not up, go left", "holds no action"),
            ("<action>up", "never closed"),
            ("up</action>", "wrong order"),
            ("</action>up<action>", "wrong order"),
            ("<action></action>", "is empty"),
            ("<action> \n </action>", "is empty"),
            ("<think>x <action>up</action>", "never closed"),
        ],
    )
    def test_there_is_no_action_and_the_reason_says_why(self, mode: ReplyMode, text: str, expected: str) -> None:
        parsed = parse_reply(text, GRAMMAR, mode)
        assert parsed.action is None
        assert not parsed.valid_format
        assert expected in parsed.reason

    @pytest.mark.parametrize("mode", ReplyMode)
    def test_an_unclosed_thought_gets_no_format_credit(self, mode: ReplyMode) -> None:
        parsed = parse_reply("<think>x <answer>y</answer>", SEARCH, mode)
        assert (parsed.action, parsed.valid_format) == (None, False)
        assert "</think>" in parsed.reason

    @pytest.mark.parametrize("mode", ReplyMode)
    def test_tags_in_the_wrong_order_are_no_search(self, mode: ReplyMode) -> None:
        parsed = parse_reply("</search>Paris<search>", SEARCH, mode)
        assert (parsed.action, parsed.valid_format) == (None, False)

    @pytest.mark.parametrize("mode", ReplyMode)
    def test_a_tag_inside_the_thought_never_acts(self, mode: ReplyMode) -> None:
        text = "<think>maybe <action>left</action></think><action>up</action>"
        assert parse_reply(text, GRAMMAR, mode).action == "up"
        only = parse_reply("<think><action>left</action></think>", GRAMMAR, mode)
        assert (only.action, only.valid_format) == (None, False)

    def test_a_required_thought_that_is_missing_costs_the_format(self) -> None:
        grammar = ReplyGrammar(thought=ThoughtRule.REQUIRED)
        assert strict("<action>up</action>", grammar)[1:3] == (None, False)
        assert lenient("<action>up</action>", grammar)[1:3] == ("up", False)
        assert lenient("<think></think><action>up</action>", grammar)[1:3] == ("up", True)


class TestStrictMode:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("<action>up</action><action>down</action>", "holds 2 actions"),
            ("I go <action>up</action>", "text outside"),
            ("<action>up</action> now", "text outside"),
            ("<think>a</think><think>b</think><action>up</action>", "holds 2 thoughts"),
            ("<action>up</action><think>b</think>", "thought first"),
            ("<action>a<action>up</action>", "text outside"),
        ],
    )
    def test_anything_but_one_thought_and_one_action_is_refused(self, text: str, expected: str) -> None:
        parsed = strict(text)
        assert (parsed.action, parsed.valid_format) == (None, False)
        assert expected in parsed.reason

    def test_the_action_is_taken_as_it_is(self) -> None:
        seen = parse_reply('<action>"Up."</action>', GRAMMAR, STRICT, canonical=str.lower)
        assert seen.action == '"Up."'

    def test_a_marker_that_the_server_left_is_no_text(self) -> None:
        assert strict("<action>up</action><|im_end|>").valid_format


class TestLenientMode:
    def test_the_last_complete_tag_counts(self) -> None:
        text = "e.g. <action>left</action> so <action>up</action> and <action>down"
        assert lenient(text) == ("", "up", True, "")

    def test_of_nested_openings_the_innermost_counts(self) -> None:
        assert lenient("<action>a <action>up</action>").action == "up"

    @pytest.mark.parametrize(
        "written",
        [
            "go to desk 1<|im_end|>",
            "Go to Desk 1.",
            '"go to desk 1"',
            "`go to desk 1`",
            '"Go to desk 1."',
            '"go to desk 1".',
            "go to desk 1</s><|eot_id|>\n",
        ],
    )
    def test_decoration_and_spelling_are_dropped(self, written: str) -> None:
        parsed = parse_reply(f"<action>{written}</action><|im_end|>", GRAMMAR, LENIENT, canonical=str.lower)
        assert (parsed.action, parsed.valid_format) == ("go to desk 1", True)

    def test_a_full_stop_belongs_to_queries_answers_and_ellipses(self) -> None:
        assert lenient("<answer>U.S.</answer>", SEARCH).action == "answer[U.S.]"
        assert lenient("<action>wait...</action>").action == "wait..."
        assert lenient("<action>.</action>").action == "."


class TestWrap:
    @given(
        action=st.text(min_size=1).filter(
            lambda t: t == t.strip() and t and "action>" not in t and "think>" not in t
        ),
        thought=st.none() | st.text().filter(lambda t: "think>" not in t),
    )
    def test_strict_parsing_gives_back_what_was_wrapped(self, action: str, thought: str | None) -> None:
        parsed = strict(GRAMMAR.wrap(action, thought))
        assert parsed == ((thought or "").strip(), action, True, "")

    def test_the_form_decides_the_tag(self) -> None:
        assert SEARCH.wrap("answer[Paris]", "sure") == "<think>sure</think><answer>Paris</answer>"
        with pytest.raises(ValueError, match="look"):
            SEARCH.wrap("look around")

    def test_a_required_thought_is_written_even_when_empty(self) -> None:
        grammar = ReplyGrammar(thought=ThoughtRule.REQUIRED)
        assert strict(grammar.wrap("up"), grammar).valid_format


class TestHostileInput:
    @given(text=REPLIES, mode=st.sampled_from(ReplyMode), grammar=st.sampled_from([GRAMMAR, SEARCH]))
    def test_parsing_never_raises_and_always_explains(
        self, text: str, mode: ReplyMode, grammar: ReplyGrammar
    ) -> None:
        parsed = parse_reply(text, grammar, mode)
        assert parsed.valid_format == (parsed.reason == "")
        if parsed.valid_format:
            assert parsed.action
        if mode is STRICT and parsed.action is not None:
            assert parsed.valid_format

    @given(text=REPLIES)
    def test_what_strict_accepts_lenient_accepts(self, text: str) -> None:
        if strict(text).valid_format:
            assert lenient(text).valid_format or lenient(text).action is None

    @pytest.mark.parametrize(
        "unit",
        [
            *("<think>", "</think>", "<think></think>", "<action>", "</action>", "<action>a</action>"),
            *("<think><action>", "</s>", "</s>x", "a", "<|im_end|>", "<", "<|", "<|a", *"'`. \n"),
        ],
    )
    @pytest.mark.parametrize("mode", ReplyMode)
    def test_a_hundred_kilobytes_take_bounded_time(self, unit: str, mode: ReplyMode) -> None:
        def seconds(size: int) -> float:
            text = unit * (size // len(unit))
            wrapped = f"<action>{text}</action>"
            best = 1e9
            for _ in range(2):
                start = time.process_time()
                parse_reply(text, GRAMMAR, mode)
                parse_reply(wrapped, GRAMMAR, mode)
                best = min(best, time.process_time() - start)
            return best

        assert seconds(100_000) < 10  # quadratic work would take minutes


class TestRejectedReply:
    def test_copies_and_pickles_keep_text_and_reason(self) -> None:
        made = RejectedReply("hello", "Write an action.")
        for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert isinstance(other, RejectedReply)
            assert (str(other), other.reason) == ("hello", "Write an action.")


def test_grammars_pickle_and_compare() -> None:
    assert pickle.loads(pickle.dumps(SEARCH)) == SEARCH == copy.deepcopy(SEARCH)
    with pytest.raises(ValueError, match="at least one"):
        ReplyGrammar({})

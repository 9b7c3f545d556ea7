"""Prompts made of segments."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.prompts import Exchange, Prompt, PromptBuilder, PromptTemplate, Segment, template_for
from agent_gym.support.errors import ConfigError
from tests.toy import PROMPT, DoorEnv, write_prompts

HISTORY = [Exchange(f"saw {n}", f"did {n}") for n in range(5)]
TEXTS = st.text(max_size=20)


@pytest.fixture
def info() -> dict[str, Any]:
    return DoorEnv().reset(seed=0, options={"task_id": "door/3"})[1]


@pytest.fixture
def builder() -> PromptBuilder:
    return PromptBuilder(PromptTemplate(PROMPT), history_length=2)


class TestRendering:
    def test_segments_come_in_the_documented_order(self, builder: PromptBuilder, info: dict[str, Any]) -> None:
        prompt = builder.prompt(info, HISTORY)
        text = prompt.text()
        places = [text.index(prompt.segments[segment]) for segment in Segment]
        assert places == sorted(places)

    @pytest.mark.parametrize("length", range(7))
    def test_every_turn_shows_as_many_exchanges_as_there_are_up_to_the_length(
        self, length: int, info: dict[str, Any]
    ) -> None:
        builder = PromptBuilder(PromptTemplate(PROMPT), history_length=length)
        for done in range(len(HISTORY) + 1):
            values = builder.values(info, HISTORY[:done])
            shown = min(length, done)
            assert values["history"] == (HISTORY[:done][-shown:] if shown else [])
            assert values["first_shown"] == done - shown + 1

    def test_the_window_shows_the_last_exchanges_with_their_numbers(
        self, builder: PromptBuilder, info: dict[str, Any]
    ) -> None:
        shown = builder.prompt(info, HISTORY).segments[Segment.HISTORY]
        assert shown == "4. saw saw 3 did did 3\n5. saw saw 4 did did 4"

    @pytest.mark.parametrize(("shown", "lines"), [(0, 0), (1, 1), (2, 2)])
    def test_fewer_exchanges_can_be_shown(
        self, builder: PromptBuilder, info: dict[str, Any], shown: int, lines: int
    ) -> None:
        prompt = builder.prompt(info, HISTORY, shown=shown)
        assert len(prompt.segments[Segment.HISTORY].splitlines()) == lines

    def test_a_history_shorter_than_the_window_is_shown_whole(
        self, builder: PromptBuilder, info: dict[str, Any]
    ) -> None:
        assert builder.prompt(info, HISTORY[:1]).segments[Segment.HISTORY] == "1. saw saw 0 did did 0"
        assert builder.prompt(info).segments[Segment.HISTORY] == ""

    def test_thoughts_are_asked_for_when_wanted(self, info: dict[str, Any]) -> None:
        asked = PromptBuilder(PromptTemplate(PROMPT), thoughts=True).prompt(info)
        assert "Think first" in asked.segments[Segment.FORMAT]

    def test_a_separator_block_replaces_the_blank_line(self, info: dict[str, Any]) -> None:
        source = '{% block separator %}{{ "|" }}{% endblock %}{% block goal %}g{% endblock %}' + (
            "{% block observation %}o{% endblock %}"
        )
        assert PromptBuilder(PromptTemplate(source)).prompt(info).text() == "g|o"

    def test_text_from_the_world_is_never_read_as_a_template(
        self, builder: PromptBuilder, info: dict[str, Any]
    ) -> None:
        hostile = "{{ goal }} {% block goal %} <b>&amp;"
        assert hostile in builder.prompt({**info, "prompt_observation": hostile}).text()


class TestMasking:
    def test_masking_blanks_exactly_the_named_segments(self, builder: PromptBuilder, info: dict[str, Any]) -> None:
        prompt = builder.prompt(info, HISTORY)
        masked = prompt.masked({"goal", Segment.HISTORY})
        for segment in Segment:
            hidden = segment in (Segment.GOAL, Segment.HISTORY)
            assert masked.segments[segment] == ("" if hidden else prompt.segments[segment])
        assert info["goal"] not in masked.text()
        assert prompt.segments[Segment.GOAL], "the original stays as it was"

    @given(segments=st.dictionaries(st.sampled_from(Segment), TEXTS), names=st.sets(st.sampled_from(Segment)))
    def test_masking_is_rendering_with_empty_segments(
        self, segments: dict[Segment, str], names: set[Segment]
    ) -> None:
        kept = {k: v for k, v in segments.items() if k not in names}
        assert Prompt(segments).masked(names).text() == Prompt(kept).text()

    def test_an_unknown_segment_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"'goals'.*'goal'"):
            Prompt({}).masked(["goals"])


class TestFullContext:
    def test_later_messages_hold_only_what_is_new(self, builder: PromptBuilder, info: dict[str, Any]) -> None:
        opening = builder.opening(info)
        assert [message["role"] for message in opening] == ["user"]
        assert info["goal"] in opening[0]["content"]
        later = builder.follow_up(info)
        assert later["role"] == "user"
        assert info["goal"] not in later["content"]
        assert info["prompt_observation"] in later["content"]
        assert "Actions:" in later["content"]


class TestTemplates:
    def test_a_template_is_found_by_name_or_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DoorEnv, "prompt_folder", write_prompts(tmp_path))
        named = template_for(DoorEnv(), "compact")
        assert named == template_for(DoorEnv, tmp_path / "compact.j2")
        assert template_for(DoorEnv).source == PROMPT

    def test_a_missing_template_lists_the_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DoorEnv, "prompt_folder", write_prompts(tmp_path))
        with pytest.raises(ConfigError, match=r"compakt.*'compact', 'prompt'"):
            template_for(DoorEnv(), "compakt")

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("{% block observation %}{{ nothing }}{% endblock %}", "nothing"),
            ("{% block observation %}", "endblock"),
            ("no block", "must have a block 'observation'"),
            ("{% block observation %}{% endblock %}{% block gaol %}{% endblock %}", "gaol"),
        ],
    )
    def test_a_faulty_template_names_itself_and_the_fault(
        self, source: str, expected: str, info: dict[str, Any]
    ) -> None:
        with pytest.raises(ConfigError, match=rf"mine\.j2.*{expected}"):
            PromptBuilder(PromptTemplate(source, "mine.j2")).prompt(info)

    def test_templates_pickle_and_copy(self, builder: PromptBuilder, info: dict[str, Any]) -> None:
        text = builder.prompt(info, HISTORY).text()
        for other in (copy.deepcopy(builder), pickle.loads(pickle.dumps(builder))):
            assert other.prompt(info, HISTORY).text() == text

    def test_a_negative_history_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="at least 0, got -1"):
            PromptBuilder(PromptTemplate(PROMPT), history_length=-1)


def test_a_template_may_show_segments_last() -> None:
    source = (
        "{% block order %}goal{% endblock %}{% block goal %}G{% endblock %}{% block observation %}O{% endblock %}"
        "{% block format %}F{% endblock %}"
    )
    prompt = PromptTemplate(source).render({})
    assert prompt.text() == "O\n\nF\n\nG"
    assert prompt.masked(["goal"]).text() == "O\n\nF"
    with pytest.raises(ConfigError, match=r"'order'.*'gaol'"):
        PromptTemplate(source.replace("order %}goal", "order %}gaol")).render({})

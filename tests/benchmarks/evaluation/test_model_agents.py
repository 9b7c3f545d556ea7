"""Agents that are language models: behind an address (a real server on this machine) and from a folder."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import pytest

from agent_gym.core.info import FinishReason
from agent_gym.core.replies import ReplyGrammar
from agent_gym.play.episode import read_episodes
from agent_gym.support.errors import ConfigError, DataError
from benchmarks.evaluation.agents.endpoint import ChatEndpoint
from benchmarks.evaluation.agents.formats import ToolFormat
from benchmarks.evaluation.agents.ledger import Prices
from benchmarks.evaluation.agents.openai import EndpointOptions, _parse
from benchmarks.evaluation.agents.play_options import PlayOptions, read_options
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.run import estimate, evaluate

pytest.importorskip("httpx", reason="httpx is not installed")

CONFIG = EvalConfig("Sokoban-v0", options={"max_moves": 4}, episodes=4, max_turns=3, device="cpu")
FAST = {"tries": 3, "pause": 0.0, "timeout": 5.0}


# The agent -----------------------------------------------------------------------------------------------


def play(service, model, output=None, **options):
    config = dataclasses.replace(CONFIG, agent_options={**FAST, **options}, output=output)
    return evaluate(config, f"openai:{model}@{service.url}")


def test_episodes_are_played_through_the_service_with_the_environments_prompts(service, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-token")
    result = play(service, "plain", temperature=0.5, top_k=3)
    assert result.summary.n_ok == 4
    assert result.summary.invalid_format == 0
    first = service.requests[0]
    assert first["path"] == "/v1/chat/completions"
    assert first["auth"] == "Bearer secret-token"
    assert (first["temperature"], first["max_tokens"], first["top_k"]) == (0.5, 512, 3)
    assert "Moves that change the board" in first["messages"][0]["content"]
    assert len({request["seed"] for request in service.requests}) == len(service.requests)
    assert result.header["agent"]["model"] == "plain"
    assert "secret-token" not in json.dumps(result.header)


def test_equal_seeds_ask_equal_questions(service):
    asked = []
    for _ in range(2):
        play(service, "plain")
        asked.append(Counter((r["key"], r["seed"]) for r in service.requests))
        service.requests.clear()
    assert asked[0] == asked[1]


def test_a_service_that_fails_now_and_then_changes_no_result(service):
    steady, shaky = play(service, "plain"), play(service, "status-500")
    assert [row.turns for row in steady.rows] == [row.turns for row in shaky.rows]
    assert shaky.summary.n_error == 0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("status-500-always", "server_error"),
        ("slow-9", "timeout"),
        ("malformed-9", "malformed_reply"),
        ("torn-always", "cut_off"),
        ("miser", "cut_short"),
    ],
)
def test_a_broken_service_counts_as_errors_by_name_and_not_as_failures(service, tmp_path, model, name):
    timeout = 0.5 if name == "timeout" else 30.0
    result = play(service, model, tmp_path / "r.json", tries=2, timeout=timeout)
    summary = result.summary
    assert (summary.n_ok, summary.n_error, summary.errors, summary.coverage) == (0, 4, {name: 4}, 0.0)
    assert summary.success.n == 0
    assert all((row.stop_reason, row.error_name) == ("tool_error", name) for row in result.rows)
    assert all(episode.error.startswith(name) for episode in read_episodes(tmp_path / "r.episodes.jsonl"))
    mended = dataclasses.replace(CONFIG, agent_options=FAST, output=tmp_path / "r.json", resume=True)
    with pytest.raises(ConfigError, match=r"another evaluation.*agent"):
        evaluate(mended, f"openai:plain@{service.url}")


def test_when_the_service_is_back_the_errors_are_played_again_with_more_patience(service, tmp_path):
    first = play(service, "malformed-3", tmp_path / "r.json", tries=1, prompt_price=1.0)
    assert first.summary.errors == {"malformed_reply": 4}
    options = {**FAST, "tries": 4, "prompt_price": 2.0, "reply_price": 10.0}
    again = dataclasses.replace(CONFIG, agent_options=options, output=tmp_path / "r.json", resume=True)
    result = evaluate(again, f"openai:malformed-3@{service.url}")
    assert (result.summary.n_ok, result.summary.n_error) == (4, 0)
    assert len(list(read_episodes(tmp_path / "r.episodes.jsonl"))) == 4
    spent, turns = result.details["spent"], sum(row.turns for row in result.rows)
    assert spent["requests"] == len(service.requests)
    assert spent["replies"] == turns
    assert spent["failed_requests"] == {"malformed_reply": len(service.requests) - turns}
    assert (spent["prompt_tokens"], spent["reply_tokens"]) == (100 * turns, 7 * turns)
    assert spent["cost"] == pytest.approx(turns * (2.0 * 100 + 10.0 * 7) / 1e6)
    assert sum(row.prompt_tokens for row in result.rows) == 100 * turns


def test_tokens_are_unknown_where_the_service_does_not_count_them(service):
    result = play(service, "uncounted")
    assert result.summary.prompt_tokens is None
    assert result.details["spent"]["replies_without_usage"] == sum(row.turns for row in result.rows)


def test_a_slow_reply_holds_up_its_own_episode_only(service):
    config = dataclasses.replace(CONFIG, episodes=5, parallel=2, agent_options={**FAST, "tries": 1, "timeout": 1.5})
    ended = []
    result = evaluate(config, f"openai:stall@{service.url}", on_episode=lambda row: ended.append(row.error_name))
    assert ended == ["", "", "", "", "timeout"]
    assert result.summary.n_ok == 4


def test_the_estimate_asks_nothing_and_is_near_what_is_spent(service, tmp_path):
    options = {**FAST, "max_reply_tokens": 10, "prompt_price": 1.0, "reply_price": 4.0}
    config = dataclasses.replace(CONFIG, agent_options=options)
    found = estimate(config, f"openai:plain@{service.url}")
    assert not service.requests
    assert (found.episodes, found.max_turns) == (4, 3)
    seen = []
    evaluate(config, f"openai:plain@{service.url}", on_estimate=seen.append)
    assert seen == [found]
    characters = sum(len(request["messages"][0]["content"]) for request in service.requests)
    assert characters / 4 * 0.5 < found.prompt_tokens <= found.most_prompt_tokens
    assert characters / 4 <= found.most_prompt_tokens * 1.05
    assert found.most_reply_tokens == 4 * 3 * 10
    assert found.most_cost == pytest.approx((found.most_prompt_tokens + 4 * found.most_reply_tokens) / 1e6)
    assert "at most" not in found.text()  # longer prompts and repeated requests come on top
    assert estimate(CONFIG, "oracle") is None


# Formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", ["window", "full"])
def test_tool_calls_play_as_tags_do_and_are_recorded_in_the_same_grammar(service, tmp_path, context):
    tags = play(service, "plain", context=context)
    tools = play(service, "plain-call", tmp_path / "r.json", context=context, format="tools")
    assert [(row.turns, row.reward) for row in tools.rows] == [(row.turns, row.reward) for row in tags.rows]
    turn = next(iter(read_episodes(tmp_path / "r.episodes.jsonl"))).turns[0]
    assert turn.reply.startswith("<think>To the box.</think><action>")
    assert turn.thought == "To the box."
    request = next(r for r in service.requests if "tools" in r)
    assert request["tools"][0]["function"]["name"] == "action"
    assert "<action>" not in request["messages"][0]["content"]
    longest = max((r for r in service.requests if "tools" in r), key=lambda r: len(r["messages"]))["messages"]
    roles = ["user"] if context == "window" else ["user", *["assistant", "tool"] * 2]
    assert [message["role"] for message in longest] == roles


@pytest.mark.parametrize(
    ("kind", "valid"), [("garbled", False), ("unknown", False), ("none", True), ("twice", True)]
)
def test_tool_calls_that_cannot_be_read_are_invalid_replies_of_the_model(service, kind, valid):
    result = play(service, f"plain-{kind}", format="tools")
    assert result.summary.n_error == 0
    assert result.summary.invalid_format == (0.0 if valid else 1.0)


def test_each_way_to_act_is_a_tool():
    form = ToolFormat(ReplyGrammar({"search": "search[{}]", "answer": "answer[{}]"}))
    tools = [tool["function"] for tool in form.request()["tools"]]
    assert [(tool["name"], tool["description"]) for tool in tools] == [
        ("search", "Act: search[text]."),
        ("answer", "Act: answer[text]."),
    ]
    call = {"function": {"name": "search", "arguments": {"text": "Rush"}}}
    assert form.read({"content": None, "tool_calls": [call]}) == "<search>Rush</search>"


def test_thoughts_that_the_service_cut_out_are_put_back(service, tmp_path):
    play(service, "thinker", tmp_path / "r.json")
    turns = [turn for e in read_episodes(tmp_path / "r.episodes.jsonl") for turn in e.turns]
    assert {turn.thought for turn in turns} == {"Boxes are heavy."}


def test_a_refused_key_ends_the_evaluation(service):
    with pytest.raises(ConfigError, match="refuses the request"):
        play(service, "status-401-always")


def test_a_cut_reply_says_so_and_is_invalid(service, tmp_path):
    result = play(service, "cut", output=tmp_path / "r.json")
    assert result.summary.invalid_format == 1.0
    turns = [turn for e in read_episodes(tmp_path / "r.episodes.jsonl") for turn in e.turns]
    assert {turn.finish_reason for turn in turns} == {FinishReason.MAX_TOKENS}


def test_a_reply_without_text_is_an_invalid_reply(service):
    assert play(service, "silent").summary.invalid_format == 1.0


def test_a_context_that_no_longer_fits_ends_the_episode_as_an_overflow(service):
    result = play(service, "status-400-context-always")
    assert result.summary.n_error == 0
    assert {row.stop_reason for row in result.rows} == {"context_overflow"}


def test_requests_of_running_episodes_are_made_at_once(service):
    play(service, "crowd")
    assert service.most_running > 1
    service.most_running = 0
    evaluate(dataclasses.replace(CONFIG, parallel=1, agent_options=FAST), f"openai:crowd@{service.url}")
    assert service.most_running == 1


def test_in_full_context_the_conversation_grows_and_replies_stand_as_they_were(service):
    play(service, "plain", context="full")
    longest = max(service.requests, key=lambda request: len(request["messages"]))["messages"]
    assert [message["role"] for message in longest] == ["user", "assistant"] * 2 + ["user"]
    assert longest[1]["content"].startswith("<action>")
    assert "Symbols:" in longest[0]["content"]
    assert "Symbols:" not in longest[2]["content"]


def test_in_window_context_earlier_turns_are_in_the_prompt(service):
    play(service, "plain", history_length=2)
    assert {len(request["messages"]) for request in service.requests} == {1}


# What is written on the command line ---------------------------------------------------------------------


def test_model_and_address_are_told_apart(monkeypatch):
    assert _parse("m@http://a:1/v1") == ("m", "http://a:1/v1")
    assert _parse("org/m@v2@https://a/v1") == ("org/m@v2", "https://a/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    assert _parse("m") == ("m", "http://b/v1")
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigError, match="names no address"):
        _parse("m")
    for nothing in ("", "@http://a/v1"):
        with pytest.raises(ConfigError, match="needs a model"):
            _parse(nothing)
    with pytest.raises(ConfigError, match="begins with http:// or https://, as in openai:m@http://a:1/v1"):
        _parse("m@a:1/v1")
    with pytest.raises(ConfigError, match="no name or password"):
        _parse("m@https://me:secret@a/v1")


def test_options_are_checked():
    found = read_options(EndpointOptions, {"temperature": 1, "context": "full", "thoughts": True}, "openai")
    assert (found.temperature, found.context.value, found.thoughts) == (1.0, "full", True)
    for given, said in (
        ({"temprature": 1}, "Did you mean 'temperature'"),
        ({"context": "wide"}, "must be one of window, full"),
        ({"max_reply_tokens": "many"}, "must be of type int"),
        ({"greedy": 1}, "must be of type bool"),
        ({"temperature": 0}, "must be positive"),
        ({"top_p": 0.0}, "top_p"),
        ({"history_length": -1}, "history_length"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_options(PlayOptions, given, "hf")
    for given, said in (
        ({"format": "xml"}, "one of tags, tools"),
        ({"tool_choice": "maybe"}, "required or auto"),
        ({"limit_field": "n"}, "max_completion_tokens"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_options(EndpointOptions, given, "openai")
    with pytest.raises(ConfigError, match="at least 0"):
        Prices(-1.0, 0.0)
    with pytest.raises(ConfigError, match="takes no --agent-option"):
        evaluate(dataclasses.replace(CONFIG, agent_options={"greedy": True}), "oracle")
    with pytest.raises(ConfigError, match="starts with http"):
        ChatEndpoint("localhost:8000", "m")


# A model from a folder -----------------------------------------------------------------------------------


def test_a_model_folder_plays_as_it_would_in_a_run(run_folder):
    options = {"prompt": "compact", "history_length": 0, "max_reply_tokens": 6, "max_context_tokens": 256}
    config = dataclasses.replace(CONFIG, agent_options=options)
    mine = evaluate(config, f"hf:{run_folder / 'reference'}")
    runs = evaluate(CONFIG, f"run:{run_folder}@reference")
    assert [(r.turns, r.reward, r.reply_tokens) for r in mine.rows] == [
        (r.turns, r.reward, r.reply_tokens) for r in runs.rows
    ]
    assert mine.header["agent"]["checksum"] == runs.header["agent"]["checksum"]
    with pytest.raises(ConfigError, match="max_context_tokens"):
        evaluate(dataclasses.replace(CONFIG, agent_options={"max_context_tokens": 9}), "hf:x")
    with pytest.raises(ConfigError, match="needs a folder"):
        evaluate(CONFIG, "hf:")
    with pytest.raises(DataError, match="--agent-option allow_downloads=true"):
        evaluate(CONFIG, "hf:no-such-model")

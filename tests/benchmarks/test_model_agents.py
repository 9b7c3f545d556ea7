"""Agents that are language models: behind an address (a real server on this machine) and from a folder."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agent_gym.core.episode import read_episodes
from agent_gym.core.errors import ConfigError
from agent_gym.core.info import FinishReason
from benchmarks.agents.endpoint import ChatEndpoint, ContextLengthError, EndpointError, RetrySettings
from benchmarks.agents.openai import EndpointOptions, _parse
from benchmarks.agents.play_options import PlayOptions, read_options
from benchmarks.evaluate import EvalConfig, evaluate

pytest.importorskip("httpx", reason="httpx is not installed")

CONFIG = EvalConfig("Sokoban-v0", options={"max_moves": 4}, episodes=4, max_turns=3, device="cpu")
FAST = {"tries": 3, "pause": 0.0, "timeout": 5.0}
HELLO = [{"role": "user", "content": "Moves that change the board: left, up."}]


class Service:
    """An OpenAI-compatible service whose models behave as their names say."""

    def __init__(self):
        self.requests = []
        self.running = self.most_running = 0
        self.lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):  # noqa: N805
                self.answer(handler)

            def log_message(handler, *arguments):  # noqa: N805
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self.lock:
            self.running += 1
            self.most_running = max(self.running, self.most_running)
            key = json.dumps(body["messages"])
            earlier = sum(request["key"] == key for request in self.requests)
            self.requests.append(
                {"key": key, "path": handler.path, "auth": handler.headers.get("authorization"), **body}
            )
        try:
            self.behave(body["model"], earlier, body, handler)
        finally:
            with self.lock:
                self.running -= 1

    def behave(self, model, earlier, body, handler):
        kind, _, count = model.partition("-")
        if kind == "slow" and earlier < int(count):
            time.sleep(0.6)
        if kind == "crowd":
            time.sleep(0.15)
        if kind == "status" and (count.endswith("always") or not earlier):
            status = int(count.split("-")[0])
            said = "maximum context length is 10 tokens" if "context" in count else "no"
            return send(handler, status, json.dumps({"error": {"message": said}}), {"Retry-After": "0"})
        if kind == "malformed" and earlier < int(count):
            return send(handler, 200, '{"choices": [{"mess')
        if kind == "shapeless":
            return send(handler, 200, json.dumps({"choices": [{"message": {"content": ["left"]}}]}))
        if kind == "hangup" and not earlier:
            handler.close_connection = True
            return handler.connection.close()
        text = body["messages"][-1]["content"]
        moves = text.split("Moves that change the board: ")[-1].split(".")[0].split(", ")
        reply, finish = f"<action>{moves[0]}</action>", "stop"
        if kind == "cut":
            reply, finish = "I would first look at the", "length"
        if kind == "silent":
            reply = None
        choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": finish}
        return send(handler, 200, json.dumps({"object": "chat.completion", "choices": [choice]}))


def send(handler, status, text, headers=()):
    data = text.encode()
    handler.send_response(status)
    for name, value in dict(headers).items():
        handler.send_header(name, value)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@pytest.fixture
def service():
    running = Service()
    yield running
    running.close()


def ask(service, model, **settings):
    endpoint = ChatEndpoint(service.url, model, settings=RetrySettings(**{"pause": 0.0, **settings}))
    try:
        return endpoint.complete(HELLO, {"max_tokens": 8}, seed=7)
    finally:
        endpoint.close()


# The client ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "tries"),
    [("plain", 1), ("status-500", 2), ("status-429", 2), ("malformed-2", 3), ("hangup", 2)],
)
def test_what_may_pass_is_tried_again(service, model, tries):
    done = ask(service, model)
    assert (done.text, done.finish_reason, done.tries) == ("<action>left</action>", FinishReason.STOP, tries)


def test_a_slow_answer_is_given_up_and_asked_for_again(service):
    assert ask(service, "slow-1", timeout=0.3).tries == 2
    with pytest.raises(EndpointError, match=r"in 2 tries.*ReadTimeout"):
        ask(service, "slow-9", timeout=0.2, tries=2)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("status-503-always", "status 503"),
        ("malformed-9", "no chat completion"),
        ("shapeless", "content is no text"),
        ("status-400-always", "rejects the request: status 400"),
    ],
)
def test_what_does_not_pass_is_an_error_of_the_service(service, model, said):
    with pytest.raises(EndpointError, match=said):
        ask(service, model, tries=2)


def test_nobody_listening_is_an_error_of_the_service():
    endpoint = ChatEndpoint("http://127.0.0.1:9/v1", "m", settings=RetrySettings(pause=0.0, tries=2))
    with pytest.raises(EndpointError, match="ConnectError"):
        endpoint.complete(HELLO, {}, 0)


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_model_is_not_tried_again(service, status):
    with pytest.raises(ConfigError, match=f"refuses the request for model .*{status}"):
        ask(service, f"status-{status}-always")
    assert len(service.requests) == 1


def test_a_conversation_that_is_too_long_is_told_apart(service):
    with pytest.raises(ContextLengthError):
        ask(service, "status-400-context-always")


def test_pauses_grow_up_to_a_limit_and_heed_what_the_service_asks_for(service):
    waits = []
    settings = RetrySettings(pause=1.0, tries=6, longest_pause=5.0)
    endpoint = ChatEndpoint(service.url, "malformed-9", settings=settings, sleep=waits.append)
    with pytest.raises(EndpointError):
        endpoint.complete(HELLO, {}, 3)
    assert len(waits) == 5
    assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:3]))
    assert waits[-1] == 5.0
    asked = []
    endpoint = ChatEndpoint(service.url, "status-429-always", settings=settings, sleep=asked.append)
    with pytest.raises(EndpointError):
        endpoint.complete(HELLO, {}, 3)
    assert asked == [0.0] * 5


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


def test_a_service_that_is_down_counts_as_errors_and_not_as_failures(service):
    result = play(service, "status-500-always")
    assert (result.summary.n_ok, result.summary.n_error) == (0, 4)
    assert all(row.stop_reason == "tool_error" and "failed" in row.error for row in result.rows)


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
    with pytest.raises(ConfigError, match="needs a model"):
        _parse("")


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

"""The client of chat endpoints, against a real server on this machine."""

from __future__ import annotations

import threading
import time

import pytest

from agent_gym.core.info import FinishReason
from agent_gym.support.errors import ConfigError
from benchmarks.evaluation.agents.endpoint import (
    ChatEndpoint,
    ContextLengthError,
    EndpointError,
    EndpointFault,
    RetrySettings,
)
from benchmarks.evaluation.agents.ledger import Usage

pytest.importorskip("httpx", reason="httpx is not installed")

HELLO = [{"role": "user", "content": "Moves that change the board: left, up."}]


def ask(service, model, context=0, **settings):
    endpoint = ChatEndpoint(
        service.url, model, settings=RetrySettings(**{"pause": 0.0, **settings}), context=context
    )
    try:
        return endpoint.complete(HELLO, {"max_tokens": 8}, seed=7)
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    ("model", "tries"),
    [
        ("plain", 1),
        ("parts", 1),
        ("status-500", 2),
        ("status-429", 2),
        ("malformed-2", 3),
        ("hangup", 2),
        ("torn", 2),
    ],
)
def test_what_may_pass_is_tried_again(service, model, tries):
    done = ask(service, model)
    assert (done.text, done.finish_reason, done.tries) == ("<action>left</action>", FinishReason.STOP, tries)
    assert done.usage == Usage(100, 7)
    assert done.seconds > 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"timeout": 0.0}, "timeout must be .* greater than 0, got 0.0"),
        ({"tries": 0}, "tries must be .* at least 1, got 0"),
        ({"pause": -1.0}, "pause must be .* at least 0, got -1.0"),
    ],
)
def test_a_setting_out_of_range_is_named_alone(values, said):
    with pytest.raises(ConfigError, match=f"^{said}.$"):
        RetrySettings(**values)


def test_half_a_character_is_replaced_so_that_the_conversation_can_be_sent_back(service):
    done = ask(service, "half")
    assert done.text == "<action>up\ufffd</action>"
    endpoint = ChatEndpoint(service.url, "plain")
    said = [{"role": "assistant", "content": "\ud83d"}, *HELLO]  # as a tool call's arguments may hold it
    assert endpoint.complete(said, {"max_tokens": 8}, 0).text == "<action>left</action>"
    endpoint.close()


@pytest.mark.parametrize("key", ["two words", "schl\u00fcssel", "a\tb"])
def test_a_key_that_no_header_can_hold_is_named_without_being_shown(key):
    with pytest.raises(ConfigError, match="the key of http://localhost/v1 holds") as caught:
        ChatEndpoint("http://localhost/v1", "plain", key)
    assert key not in str(caught.value)


def test_a_key_is_sent_without_the_line_feed_behind_it(service):
    endpoint = ChatEndpoint(service.url, "plain", "secret\n")
    endpoint.complete(HELLO, {"max_tokens": 8}, 0)
    endpoint.close()
    assert service.requests[-1]["auth"] == "Bearer secret"


def test_a_reply_that_is_cut_where_the_context_is_full_is_no_fault_of_the_service(service):
    with pytest.raises(ContextLengthError, match="after 3 of 8 tokens"):
        ask(service, "miser", context=104)  # 100 of the prompt
    with pytest.raises(EndpointError, match=r"^cut_short"):
        ask(service, "miser", context=200)


def test_a_slow_answer_is_given_up_and_asked_for_again(service):
    assert ask(service, "slow-1", timeout=1.0).tries == 2


FAULTS = {
    "slow-9": (EndpointFault.TIMEOUT, "ReadTimeout"),
    "dribble": (EndpointFault.TIMEOUT, "bytes of the answer came in"),
    "torn-always": (EndpointFault.CUT_OFF, "in 2 tries.*RemoteProtocolError"),
    "miser": (EndpointFault.CUT_SHORT, "in 1 try.*after 3 of 8 tokens"),
    "status-503-always": (EndpointFault.SERVER_ERROR, "status 503"),
    "status-429-always": (EndpointFault.RATE_LIMIT, "status 429"),
    "malformed-9": (EndpointFault.MALFORMED, "no chat completion"),
    "shapeless": (EndpointFault.MALFORMED, "content is no text"),
    "filtered": (EndpointFault.FILTERED, "in 1 try.*withheld"),
    "status-400-always": (EndpointFault.REJECTED, "in 1 try.*status 400"),
}


@pytest.mark.parametrize("model", FAULTS)
def test_what_does_not_pass_is_an_error_of_the_service_with_a_name(service, model):
    fault, said = FAULTS[model]
    with pytest.raises(EndpointError, match=f"^{fault}: .*{said}") as caught:
        # A busy machine takes its time over a good answer, too.
        ask(service, model, tries=2, timeout=0.5 if fault is EndpointFault.TIMEOUT else 30.0)
    assert caught.value.fault is fault


def test_nobody_listening_is_an_error_of_the_service():
    endpoint = ChatEndpoint("http://127.0.0.1:9/v1", "m", settings=RetrySettings(pause=0.0, tries=2))
    with pytest.raises(EndpointError, match=r"connection: .*ConnectError"):
        endpoint.complete(HELLO, {}, 0)
    assert endpoint.ledger.spent()["failed_requests"] == {"connection": 2}


def test_closing_ends_the_pause_before_another_try(service):
    endpoint = ChatEndpoint(service.url, "status-500-always", settings=RetrySettings(pause=60, longest_pause=60))
    threading.Timer(0.2, endpoint.close).start()
    begin = time.monotonic()
    with pytest.raises(EndpointError):
        endpoint.complete(HELLO, {"max_tokens": 8}, 0)
    assert time.monotonic() - begin < 20


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

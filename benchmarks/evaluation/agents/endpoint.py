"""A client of OpenAI-compatible chat endpoints: retries, and a clear line between a bad answer and a bad service.

What may pass (time-outs, broken connections, replies that break off, 408, 409, 429, 5xx, bodies that are no chat
completion) is tried again with growing pauses. What remains is an `EndpointError` with the name of the fault: it
says nothing about the model, so an evaluation counts it apart from failures. What cannot pass (a wrong key, model
or address) is a `ConfigError` at once.

Left out: streaming, and any dialect beside `chat/completions`.
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from agent_gym.core.info import FinishReason
from agent_gym.support.checks import check_number, check_whole
from agent_gym.support.errors import AgentGymError, ConfigError
from benchmarks.evaluation.agents.ledger import Ledger, Usage

_AGAIN = frozenset({408, 409, 425, 429})
_HOPELESS = frozenset({401, 403, 404, 405})
_SHOWN = 300  # characters of a body in messages
_LONGEST_BODY = 32 * 2**20
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, as a reply cut between two tokens may end with: no request could carry it back."""
_COUNTING_SLACK = 2  # tokens by which services count a cut reply differently from its limit


class EndpointFault(StrEnum):
    """What went wrong with a service."""

    TIMEOUT = "timeout"
    """The reply was not whole in time."""
    CONNECTION = "connection"
    """There was no connection, or it broke before an answer."""
    CUT_OFF = "cut_off"
    """The answer broke off in the middle."""
    CUT_SHORT = "cut_short"
    """The service ended the reply below the limit that was asked for."""
    RATE_LIMIT = "rate_limit"
    """Status 429."""
    SERVER_ERROR = "server_error"
    """Status 5xx, 408, 409 or 425."""
    MALFORMED = "malformed_reply"
    """The body is no chat completion."""
    FILTERED = "content_filter"
    """The service withheld the reply."""
    REJECTED = "rejected_request"
    """Another status: the service does not take this request."""


class EndpointError(AgentGymError, RuntimeError):
    """The service gave no usable answer; says nothing about the model behind it.

    Args:
        fault: What went wrong.
        text: Explanation.
    """

    def __init__(self, fault: EndpointFault, text: str) -> None:
        super().__init__(f"{fault}: {text}")
        self.fault = fault


class ContextLengthError(AgentGymError, RuntimeError):
    """The conversation is longer than the model's context."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer.

    Attributes:
        message: The assistant's message as the service gave it: `content` (text or None), `tool_calls`, ...
        finish_reason: Whether it ended by itself or was cut at the token limit.
        tries: Requests it took.
        usage: Its tokens, None where the service does not tell.
        seconds: Wall-clock seconds from the first request to the answer.
    """

    message: Mapping[str, Any]
    finish_reason: FinishReason
    tries: int = 1
    usage: Usage | None = None
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The text of the message, "" when it has none."""
        return self.message.get("content") or ""


@dataclass(frozen=True)
class RetrySettings:
    """How long a request may take and how often it is tried.

    Raises:
        ConfigError: A value is out of range.
    """

    timeout: float = 120.0
    """Seconds that a request may take until its answer is whole."""
    tries: int = 5
    """Requests for one reply before it is given up."""
    pause: float = 1.0
    """Seconds before the second try; each further pause is twice as long."""
    longest_pause: float = 30.0
    """Longest pause, one that the service asks for (Retry-After) included."""

    def __post_init__(self) -> None:
        check_number("timeout", self.timeout, 0, math.inf, open_low=True)
        check_whole("tries", self.tries, 1)
        for name in ("pause", "longest_pause"):
            check_number(name, getattr(self, name), 0, math.inf)


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a request gave no completion."""

    fault: EndpointFault
    text: str
    wait: float | None = None
    again: bool = True
    error: Exception | None = field(default=None, compare=False)


class ChatEndpoint:
    """Asks one model at one address; may be called from several threads.

    Args:
        url: Base address, such as `http://localhost:8000/v1`.
        model: Name of the model as the service knows it.
        key: Bearer token, or None; blanks around it, a line feed say, do not count.
        settings: Time-outs and retries.
        connections: Most requests at once.
        context: Most tokens of prompt and reply together, 0 where unknown.
        ledger: Where requests, tokens and faults are counted.
        sleep: Waits for a number of seconds; the default wakes up when the endpoint is closed.

    Raises:
        ConfigError: httpx is not installed, the address is none, or no header can hold the key.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: str | None = None,
        settings: RetrySettings | None = None,
        *,
        connections: int = 64,
        context: int = 0,
        ledger: Ledger | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConfigError(
                f"agents behind an address need httpx: pip install 'agent-gym[endpoint]' ({error})"
            ) from error
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"an endpoint's address starts with http:// or https://, got {url!r}")
        key = (key or "").strip()
        if not all("!" <= sign <= "~" for sign in key):  # the key itself is shown nowhere
            raise ConfigError(
                f"the key of {url} holds a blank, a control character or one beyond ASCII, which no request can "
                "carry; set it anew (openai agents read it from OPENAI_API_KEY)"
            )
        self._httpx = httpx
        self._url = url.rstrip("/") + "/chat/completions"
        self._model = model
        self._settings = settings or RetrySettings()
        self._context = context
        self.ledger = ledger or Ledger()
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._client = httpx.Client(
            headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})},
            timeout=httpx.Timeout(self._settings.timeout, connect=min(10.0, self._settings.timeout), pool=None),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    def complete(self, messages: Sequence[Mapping[str, Any]], sampling: Mapping[str, Any], seed: int) -> Completion:
        """Return the model's reply to a conversation.

        Args:
            messages: The conversation, the last message being the one to answer.
            sampling: Fields of the request beside model, messages and seed.
            seed: Seed sent along, which services may honour; also of the jitter of pauses.

        Raises:
            EndpointError: No usable answer after all tries.
            ContextLengthError: The service says that the conversation is too long, or cut the reply where the
                context was full.
            ConfigError: The service refuses this key, model or address.
        """
        body = {"model": self._model, "messages": list(messages), "seed": seed, **sampling}
        jitter = random.Random(seed)
        begin = time.perf_counter()
        tries = self._settings.tries
        problem = _Problem(EndpointFault.CONNECTION, "nothing was asked")
        for attempt in range(1, tries + 1):
            self.ledger.requested(again=attempt > 1)
            found = self._ask(body, attempt, begin)
            if isinstance(found, Completion):
                return found
            problem = found
            self.ledger.failed(problem.fault)
            if problem.error is not None:
                raise problem.error
            if attempt == tries or not problem.again or self._closed.is_set():
                break
            steady = self._settings.pause * 2 ** (attempt - 1) * jitter.uniform(0.5, 1.0)
            self._sleep(min(self._settings.longest_pause, steady if problem.wait is None else problem.wait))
        count = "1 try" if attempt == 1 else f"{attempt} tries"
        raise EndpointError(
            problem.fault, f"{self._url} gave no usable answer in {count}; the last: {problem.text}"
        )

    def close(self) -> None:
        """Stop trying again and close the connections."""
        self._closed.set()
        self._client.close()

    def _ask(self, body: Mapping[str, Any], attempt: int, begin: float) -> Completion | _Problem:
        """Return what one request came to."""
        deadline = time.monotonic() + self._settings.timeout
        answering = False
        try:
            # In ASCII, which can write half a character too, as the arguments of a tool call may hold one.
            content = json.dumps(body, separators=(",", ":")).encode("ascii")
            with self._client.stream("POST", self._url, content=content) as response:
                answering = True
                data = bytearray()
                for part in response.iter_bytes():
                    data += part
                    if time.monotonic() > deadline:
                        text = f"{len(data)} bytes of the answer came in {self._settings.timeout} seconds"
                        return _Problem(EndpointFault.TIMEOUT, text)
                    if len(data) > _LONGEST_BODY:
                        return _Problem(EndpointFault.MALFORMED, f"the body is longer than {_LONGEST_BODY} bytes")
        except self._httpx.TimeoutException as error:
            return _Problem(EndpointFault.TIMEOUT, f"{type(error).__name__}: {error}")
        except (self._httpx.HTTPError, self._httpx.InvalidURL, RuntimeError) as error:  # RuntimeError: closed
            fault = EndpointFault.CUT_OFF if answering else EndpointFault.CONNECTION
            return _Problem(fault, f"{type(error).__name__}: {error}")
        text = data.decode("utf-8", "replace")
        if response.status_code != 200:
            return self._refusal(response.status_code, response.headers, text)
        return self._completion(body, text, attempt, time.perf_counter() - begin)

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> _Problem:
        """Return the problem of a status."""
        said = f"status {status}: {text[:_SHOWN]}"
        if status in _HOPELESS:
            error = ConfigError(f"{self._url} refuses the request for model {self._model!r}: {said}")
            return _Problem(EndpointFault.REJECTED, said, error=error)
        if status in _AGAIN or status >= 500:
            fault = EndpointFault.RATE_LIMIT if status == 429 else EndpointFault.SERVER_ERROR
            return _Problem(fault, said, _asked_pause(headers.get("retry-after", "")))
        if "context" in text and ("length" in text or "token" in text):
            return _Problem(EndpointFault.REJECTED, said, error=ContextLengthError(said))
        return _Problem(EndpointFault.REJECTED, said, again=False)

    def _completion(
        self, body: Mapping[str, Any], text: str, attempt: int, seconds: float
    ) -> Completion | _Problem:
        """Return the reply in a body, or what is wrong with the body."""
        try:
            values = json.loads(text)
            if "\\ud" in text.lower():  # only escapes can write half a character
                values = json.loads(_LONE_SURROGATE.sub("\ufffd", json.dumps(values, ensure_ascii=False)))
            choice = values["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
            content = _joined(message.get("content"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return _Problem(EndpointFault.MALFORMED, f"the body is no chat completion: {text[:_SHOWN]!r}")
        if not (content is None or isinstance(content, str)) or not isinstance(
            message.get("tool_calls") or [], list
        ):
            return _Problem(EndpointFault.MALFORMED, f"the message's content is no text: {text[:_SHOWN]!r}")
        message = {**message, "content": content}
        usage = _usage(values.get("usage"))
        self.ledger.replied(usage)
        if finish == "content_filter":
            problem = f"the service withheld the reply: {text[:_SHOWN]!r}"
            return _Problem(EndpointFault.FILTERED, problem, again=False)  # the same again, and paid for again
        cut = finish == "length"
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if cut and usage is not None and usage.reply_tokens < limit - _COUNTING_SLACK:
            problem = f"the reply ends after {usage.reply_tokens} of {limit} tokens (a limit of the service's own)"
            read = usage.prompt_tokens + usage.reply_tokens
            full = bool(self._context) and read + _COUNTING_SLACK >= self._context
            error = ContextLengthError(f"{problem}, {self._context} with the prompt's") if full else None
            return _Problem(EndpointFault.CUT_SHORT, problem, again=False, error=error)
        reason = FinishReason.MAX_TOKENS if cut else FinishReason.STOP
        return Completion(message, reason, attempt, usage, seconds)


def _joined(content: Any) -> Any:
    """Return the text of a content that is a list of text parts, as some services send it; any other as it is."""
    if not isinstance(content, list) or not content:
        return content
    parts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(content) else content


def _usage(values: Any) -> Usage | None:
    """Return the tokens that a body names, None where it does not."""
    if not isinstance(values, Mapping):
        return None
    read, written = values.get("prompt_tokens"), values.get("completion_tokens")
    if not isinstance(read, int) or not isinstance(written, int) or min(read, written) < 0:
        return None
    return Usage(read, written)


def _asked_pause(value: str) -> float | None:
    """Return the seconds of a Retry-After header, which holds a number or a date; None without one."""
    value = value.strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None

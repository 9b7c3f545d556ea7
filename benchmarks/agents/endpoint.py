"""A client of OpenAI-compatible chat endpoints: retries, and a clear line between a bad answer and a bad service.

What may pass (time-outs, broken connections, 408, 409, 429, 5xx, bodies that are no chat completion) is tried
again with growing pauses. What remains is an `EndpointError`: it says nothing about the model, so an evaluation
counts it apart from failures. What cannot pass (a wrong key, model or address) is a `ConfigError` at once.

Left out: streaming, tools, and any dialect beside `chat/completions`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from agent_gym.core.errors import AgentGymError, ConfigError
from agent_gym.core.info import FinishReason
from agent_gym.core.prompts import Message

_AGAIN = frozenset({408, 409, 425, 429})
_HOPELESS = frozenset({401, 403, 404, 405})
_SHOWN = 300  # characters of a body in messages


class EndpointError(AgentGymError, RuntimeError):
    """The service gave no usable answer; says nothing about the model behind it."""


class ContextLengthError(AgentGymError, RuntimeError):
    """The conversation is longer than the model's context."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer.

    Attributes:
        text: The reply, "" when the model said nothing.
        finish_reason: Whether it ended by itself or was cut.
        tries: Requests it took.
    """

    text: str
    finish_reason: FinishReason
    tries: int


@dataclass(frozen=True)
class RetrySettings:
    """How long a request may take and how often it is tried.

    Raises:
        ConfigError: A value is out of range.
    """

    timeout: float = 120.0
    """Seconds without a byte from the service after which a request has failed."""
    tries: int = 5
    """Requests for one reply before it is given up."""
    pause: float = 1.0
    """Seconds before the second try; each further pause is twice as long."""
    longest_pause: float = 30.0
    """Longest pause, one that the service asks for (Retry-After) included."""

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.tries < 1 or self.pause < 0 or self.longest_pause < 0:
            raise ConfigError(f"timeout must be positive, tries at least 1 and pauses at least 0, got {self}")


class ChatEndpoint:
    """Asks one model at one address; may be called from several threads.

    Args:
        url: Base address, such as `http://localhost:8000/v1`.
        model: Name of the model as the service knows it.
        key: Bearer token, or None.
        settings: Time-outs and retries.
        connections: Most requests at once.
        sleep: Waits for a number of seconds.

    Raises:
        ConfigError: httpx is not installed, or the address is none.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: str | None = None,
        settings: RetrySettings | None = None,
        *,
        connections: int = 64,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConfigError(
                f"agents behind an address need httpx: pip install 'agent-gym[endpoint]' ({error})"
            ) from error
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"an endpoint's address starts with http:// or https://, got {url!r}")
        self._httpx = httpx
        self._url = url.rstrip("/") + "/chat/completions"
        self._model = model
        self._settings = settings or RetrySettings()
        self._sleep = sleep
        self._client = httpx.Client(
            headers={} if not key else {"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(self._settings.timeout, connect=min(10.0, self._settings.timeout), pool=None),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    def complete(self, messages: Sequence[Message], sampling: dict[str, Any], seed: int) -> Completion:
        """Return the model's reply to a conversation.

        Args:
            messages: The conversation, the last message being the one to answer.
            sampling: Fields of the request beside model, messages and seed.
            seed: Seed sent along, which services may honour; also of the jitter of pauses.

        Raises:
            EndpointError: No usable answer after all tries.
            ContextLengthError: The service says that the conversation is too long.
            ConfigError: The service refuses this key, model or address.
        """
        body = {"model": self._model, "messages": list(messages), "seed": seed, **sampling}
        jitter = random.Random(seed)
        problem = ""
        for attempt in range(1, self._settings.tries + 1):
            wait: float | None = None
            try:
                response = self._client.post(self._url, json=body)
            except self._httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.status_code == 200:
                    found = _completion(response, attempt)
                    if isinstance(found, Completion):
                        return found
                    problem = found
                else:
                    problem = self._refusal(response)
                    wait = _asked_pause(response)
            if attempt < self._settings.tries:
                steady = self._settings.pause * 2 ** (attempt - 1) * jitter.uniform(0.5, 1.0)
                self._sleep(min(self._settings.longest_pause, steady if wait is None else wait))
        raise EndpointError(
            f"{self._url} gave no usable answer in {self._settings.tries} tries; the last: {problem}"
        )

    def _refusal(self, response: Any) -> str:
        """Return what a status says that may pass; raises for one that will not."""
        status = response.status_code
        text = f"status {status}: {response.text[:_SHOWN]}"
        if status in _HOPELESS:
            raise ConfigError(f"{self._url} refuses the request for model {self._model!r}: {text}")
        if status in _AGAIN or status >= 500:
            return text
        if "context" in response.text and ("length" in response.text or "token" in response.text):
            raise ContextLengthError(text)
        raise EndpointError(f"{self._url} rejects the request: {text}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _completion(response: Any, tries: int) -> Completion | str:
    """Return the reply in a body, or what is wrong with the body."""
    try:
        choice = response.json()["choices"][0]
        text = choice["message"]["content"]
        finish = choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"the body is no chat completion: {response.text[:_SHOWN]!r}"
    if text is not None and not isinstance(text, str):
        return f"the message's content is no text: {response.text[:_SHOWN]!r}"
    cut = FinishReason.MAX_TOKENS if finish == "length" else FinishReason.STOP
    return Completion(text or "", cut, tries)


def _asked_pause(response: Any) -> float | None:
    """Return the seconds of a Retry-After header, which holds a number or a date; None without one."""
    value = response.headers.get("retry-after", "").strip()
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

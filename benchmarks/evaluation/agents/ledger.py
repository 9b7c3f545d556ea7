"""What asking a service has taken so far: requests, tokens, failures, money."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_gym.support.errors import ConfigError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the service counts them."""

    prompt_tokens: int
    reply_tokens: int


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a service.

    Attributes:
        prompt: Price of a million tokens read, in whatever currency the user thinks in.
        reply: Price of a million tokens written.

    Raises:
        ConfigError: A price is negative or not finite.
    """

    prompt: float = 0.0
    reply: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prompt", "reply"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ConfigError(f"{name}_price is a price per million tokens, at least 0; got {value}")

    @property
    def known(self) -> bool:
        """Whether a price was given."""
        return self.prompt > 0 or self.reply > 0

    def cost(self, prompt_tokens: float, reply_tokens: float) -> float | None:
        """Return what so many tokens cost, None without prices."""
        if not self.known:
            return None
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / MILLION


class Ledger:
    """Counts what a service was asked and what it gave; may be written to from several threads.

    Replies that were thrown away count too: they were paid for.

    Args:
        prices: Prices of the service.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = prices or Prices()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    def requested(self, *, again: bool) -> None:
        """Note a request; `again` for one that repeats a failed one."""
        with self._lock:
            self._counts["requests"] += 1
            self._counts["retries"] += again

    def replied(self, usage: Usage | None) -> None:
        """Note a reply and its tokens, None where the service did not tell."""
        with self._lock:
            self._counts["replies"] += 1
            if usage is None:
                self._counts["replies_without_usage"] += 1
            else:
                self._counts["prompt_tokens"] += usage.prompt_tokens
                self._counts["reply_tokens"] += usage.reply_tokens

    def failed(self, fault: str) -> None:
        """Note a request that failed, by the name of the fault."""
        with self._lock:
            self._faults[fault] += 1

    def spent(self) -> dict[str, Any]:
        """Return the counts so far as JSON values; see `add_spent`."""
        with self._lock:
            counts, faults = dict(self._counts), dict(sorted(self._faults.items()))
        names = ("requests", "retries", "replies", "replies_without_usage", "prompt_tokens", "reply_tokens")
        found: dict[str, Any] = {name: counts.get(name, 0) for name in names}
        found["failed_requests"] = faults
        found["cost"] = self.prices.cost(found["prompt_tokens"], found["reply_tokens"])
        return found


def add_spent(first: Mapping[str, Any] | None, second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of two `Ledger.spent`; a cost that one of them does not know is that of the other."""
    if not first:
        return dict(second)
    total: dict[str, Any] = {}
    for name, value in second.items():
        earlier = first.get(name)
        if isinstance(value, Mapping):
            faults = Counter(value)
            faults.update(earlier or {})
            total[name] = dict(sorted(faults.items()))
        elif value is None or earlier is None:
            total[name] = earlier if value is None else value
        else:
            total[name] = earlier + value
    return total

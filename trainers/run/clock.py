"""Where the time of an iteration goes."""

from __future__ import annotations

import time


class Clock:
    """Wall-clock seconds by phase."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """End a phase: the seconds since the last one are its."""
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now

    def split(self, name: str, part: str, seconds: float) -> None:
        """Count some seconds of a phase under a name of their own."""
        self.seconds[name] -= seconds
        self.seconds[part] = seconds

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

"""Counters of the retrieval server in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram, in seconds."""

_PREFIX = "agent_gym_retriever"


class Metrics:
    """What a server has done since it started; used from one event loop."""

    def __init__(self) -> None:
        self._requests: Counter[int] = Counter()
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, status: int, seconds: float) -> None:
        """Count one request to the search route."""
        self._requests[status] += 1
        self._buckets[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def write(self, **values: float) -> str:
        """Return the metrics page; keyword values are added as gauges."""
        lines = [f"# TYPE {_PREFIX}_requests_total counter"]
        lines += [f'{_PREFIX}_requests_total{{status="{s}"}} {n}' for s, n in sorted(self._requests.items())]
        lines.append(f"# TYPE {_PREFIX}_request_seconds histogram")
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{_PREFIX}_request_seconds_bucket{{le="{bound}"}} {total}')
        lines.append(f"{_PREFIX}_request_seconds_sum {self._seconds:.6f}")
        lines.append(f"{_PREFIX}_request_seconds_count {total}")
        for name, value in values.items():
            lines += [f"# TYPE {_PREFIX}_{name} gauge", f"{_PREFIX}_{name} {value}"]
        return "\n".join(lines) + "\n"

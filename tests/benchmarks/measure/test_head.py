from __future__ import annotations

import pytest

from agent_gym.support.errors import ConfigError
from benchmarks.measure.head import HeadJob, Way, _read_job, main, measure


@pytest.mark.slow
def test_the_chunked_head_keeps_less_and_gives_the_same():
    found = measure(HeadJob(vocab=16_384, hidden=32, rows=4, width=128, reply=16))
    assert max(found["difference"].values()) < 1e-6
    plain, chunked = (found[way.value] for way in Way)
    assert chunked["saved_mib"] < plain["saved_mib"] / 4
    assert chunked["peak_mib"] <= plain["peak_mib"]  # both are 0 in a process that has held more before


def test_sizes_are_read_from_the_command_line():
    assert _read_job(["rows=4"]) == HeadJob(rows=4)
    for text in ("row=4", "rows", "rows=0"):
        with pytest.raises(ConfigError, match="expected name=number"):
            _read_job([text])
    with pytest.raises(ConfigError, match="Did you mean 'vocab'"):
        main(["vocabs=9"])

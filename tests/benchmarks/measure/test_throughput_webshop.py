from __future__ import annotations

from typing import Any

import pytest

from benchmarks.measure.throughput.webshop import make_job, measure, memory
from benchmarks.measure.throughput.webshop_report import webshop_table


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return measure({**make_job(0.01, 1), "options": {"difficulty": "tiny"}, "counts": ()})


def test_every_kind_of_page_has_a_rate(figures: dict[str, Any]) -> None:
    assert len(figures["steps_per_s"]) == 7
    assert all(rate > 0 for rate in figures["steps_per_s"].values())
    assert figures["products"] == 240
    assert webshop_table(figures).row_count == 11


def test_many_environments_share_one_catalogue() -> None:
    one = memory({"options": {"difficulty": "tiny"}, "count": 1})
    many = memory({"options": {"difficulty": "tiny"}, "count": 64})
    assert many["after_mib"] - one["after_mib"] < 20

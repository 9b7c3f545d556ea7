from __future__ import annotations

import pytest

from benchmarks.measure.site.report import measure_site, site_table

pytest.importorskip("starlette", reason="the site needs the extra [webshop]")
pytest.importorskip("httpx", reason="the shoppers need httpx")


@pytest.mark.slow
def test_shoppers_buy_without_an_error_and_the_table_shows_it():
    figures = measure_site("generated", 8, 4.0, 0.05)
    assert figures["errors"] == {}
    assert figures["visits"] > 0
    assert set(figures["pages"]) >= {"index", "results", "item", "done"}
    assert 0 < figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"]
    assert len(figures["rss_bytes"]) >= 1
    assert site_table(figures).row_count == 8

from __future__ import annotations

import pytest

from benchmarks.measure.search.catalogue import MEAN_WORDS, products, queries, words
from benchmarks.measure.search.report import measure_search, search_table


def test_generated_products_have_the_word_frequencies_of_a_shop():
    texts = [set(text.split()) for _, text in products(600)]
    vocabulary = words(200)
    share = [sum(word in text for text in texts) / len(texts) for word in vocabulary]
    assert share[0] == pytest.approx(0.79, abs=0.12)
    assert share[99] == pytest.approx(0.126, abs=0.06)
    assert len(set(words(50_000))) == 50_000
    lengths = [len(text.split()) for _, text in products(600)]
    assert sum(lengths) / len(lengths) == pytest.approx(MEAN_WORDS, rel=0.1)


def test_products_and_queries_are_the_same_every_time():
    assert list(products(30)) == list(products(30))
    assert queries(5) == queries(5) != queries(5, seed=2)


def test_search_is_measured_and_a_kept_index_is_searched_without_building(tmp_path):
    figures = measure_search(300, 10, tmp_path / "index")
    assert figures["build_cpu_s"] > 0
    assert figures["index_bytes"] > 1000
    assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    assert 40 < figures["hits"] <= 50
    assert search_table(figures).row_count == 10
    assert "build_cpu_s" not in measure_search(300, 10, tmp_path / "index")

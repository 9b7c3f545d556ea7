from __future__ import annotations

import importlib.util
import io

import pytest
from rich.console import Console

from agent_gym.support.errors import ConfigError
from benchmarks.measure.cli import trainer
from benchmarks.measure.throughput.trainer.report import measure_trainer, summarise, trainer_table


def side(total):
    steps = [
        {"sampling": total / 2, "update": total / 4, "total": total, "reply_tokens": 100}
        for total in (9.0, total, 9.0)
    ]
    return {"steps": steps, "peak_mib": 7.0}


def test_rates_are_those_of_the_iterations_that_count():
    found = summarise(side(2.0))
    assert (found["sampling"], found["update"], found["total"]) == (100.0, 200.0, 50.0)
    assert (found["seconds"], found["peak_mib"]) == (2.0, 7.0)


def test_without_the_other_side_the_table_holds_ours():
    figures = {
        "groups": 2,
        "group_size": 2,
        "reply_tokens": 4,
        "parameters": 10,
        "versions": None,
        "ours": summarise(side(2.0)),
        "trl": None,
    }
    text = io.StringIO()
    Console(file=text, width=120).print(trainer_table(figures))
    assert "sampling" in text.getvalue() and "1.00x" not in text.getvalue()


def test_there_is_one_to_compare_with():
    with pytest.raises(ConfigError, match="takes trl"):
        trainer(against="verl")


@pytest.mark.slow
def test_both_sides_train_on_equal_batches():
    figures = measure_trainer(None, groups=2, group_size=2, reply_tokens=4, iterations=1)
    ours, theirs = figures["ours"], figures["trl"]
    assert 0 < ours["reply_tokens"] <= 16
    assert ours["peak_mib"] >= 0  # growth above what the start has already used
    if importlib.util.find_spec("trl") is None:
        assert theirs is None and "TRL is not installed" in figures["upstream_missing"]
        pytest.skip(figures["upstream_missing"])
    assert 0 < theirs["reply_tokens"] <= 16
    assert set(figures["ratios"]) == {"sampling", "update", "total"}
    assert figures["ratios"]["total"] > 0.2

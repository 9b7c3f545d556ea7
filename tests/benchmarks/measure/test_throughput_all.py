"""The overview: every environment in the same terms, beside its original."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agent_gym.support.errors import ConfigError
from benchmarks.measure.throughput.overview import kib_per_env, measure
from benchmarks.measure.throughput.overview_plot import draw
from benchmarks.measure.throughput.overview_report import SUBJECTS, measure_all, overview_tables
from benchmarks.measure.throughput.report import run_suite
from benchmarks.measure.throughput.upstream.interpreters import Upstreams

SMALL = {
    "Sokoban-v0": {},
    "ALFWorld-v0": {"difficulty": "small"},
    "WebShop-v0": {"difficulty": "tiny"},
    "SearchQA-v0": {"split": "test", "entities": 100, "worlds": 1},
}


@pytest.mark.parametrize("env_id", SMALL)
def test_every_environment_is_measured_in_the_same_terms(env_id):
    job = {"env_id": env_id, "options": SMALL[env_id], "seconds": 0.02, "repeats": 1, "crowds": [1, 3]}
    figures = measure(job)
    assert [crowd["envs"] for crowd in figures["crowds"]] == [1, 3]
    rates = [figures[name] for name in ("steps_per_s", "restarts_per_s", "resets_per_s", "construction_ms")]
    assert all(rate > 0 for rate in [*rates, *(crowd["steps_per_s"] for crowd in figures["crowds"])])


@pytest.mark.slow
def test_one_run_measures_beside_a_server_and_says_what_is_not_installed(tmp_path):
    pytest.importorskip("starlette", reason="the server needs the extra [search]")
    subjects = [dataclasses.replace(s, options=SMALL[s.env_id]) for s in SUBJECTS[-2:]]
    parts = []
    figures = measure_all(Upstreams(), 0.05, 1, subjects=subjects, crowds=(1, 2), on_part=parts.append)
    assert json.loads(json.dumps(figures)) == figures
    assert parts == [subject.title for subject in subjects]
    shop, search = figures["rows"]
    assert "server" in search["original"]["name"]
    assert 0 < search["original"]["steps_per_s"] < search["wall_steps_per_s"]
    console = Console(record=True, width=160)
    for table in overview_tables(figures):
        console.print(table)
    assert shop["original"] is None and "not installed" in console.export_text()
    pytest.importorskip("matplotlib")
    draw(figures, tmp_path / "all.png")
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")


def test_memory_of_an_environment_is_the_growth_of_the_largest_crowd():
    rows = [{"envs": n, "before_mib": 50.0, "after_mib": 50.0 + grown} for n, grown in ((1, 5.0), (64, 2.0))]
    assert kib_per_env({"crowds": rows}) == 2.0 * 1024 / 64
    assert kib_per_env({"crowds": rows[:1]}) is None


def test_interpreters_are_named_for_all_or_for_a_suite():
    found = Upstreams.read([sys.executable, f"alfworld={sys.executable}"])
    assert str(found.of("alfworld")) == str(found.of("sokoban")) == sys.executable
    assert Upstreams().of("sokoban") is None
    for text, said in (("alfwrld=" + sys.executable, "Did you mean"), ("sokoban=nope", "no file nope")):
        with pytest.raises(ConfigError, match=said):
            Upstreams.read([text])
    with pytest.raises(ConfigError, match="reads none"):
        run_suite("all", Upstreams(), 1.0, 1, None, data=Path(sys.executable))
    with pytest.raises(ConfigError, match="draws none"):
        run_suite("sokoban", Upstreams(), 1.0, 1, None, plot=Path("x.png"))

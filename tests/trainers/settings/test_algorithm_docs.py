"""The algorithm pages say what the code does: settings with their values, and metrics and tests that exist."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from enum import StrEnum
from pathlib import Path

import pytest

from trainers.run.metrics import METRICS
from trainers.settings.algorithm import ALGORITHMS, AlgorithmConfig
from trainers.settings.stapo import StapoSettings

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "algorithms"
ROW = re.compile(r"^\| `([^`]+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ALL = {item.name for item in fields(AlgorithmConfig)} - {"stapo"}
STAPO = {f"stapo.{item.name}" for item in fields(StapoSettings)}


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text("utf-8")


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def shown(value: object) -> str:
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting(config: AlgorithmConfig, name: str) -> object:
    group, _, inner = name.rpartition(".")
    return getattr(config.stapo if group else config, inner)


def test_there_is_a_page_for_every_algorithm_and_the_index_links_it() -> None:
    expected = {*ALGORITHMS, "index", "reference-numbers"}
    assert {path.stem for path in PAGES.glob("*.md")} == expected
    for name in ALGORITHMS:
        assert f"[`{name}`]({name}.md)" in page("index")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_page_lists_settings_with_the_values_of_its_row(name: str) -> None:
    found = ROW.findall(section(page(name), "Knobs"))
    assert found
    for knob, value, meaning in found:
        assert knob in ALL | STAPO, knob
        assert value == shown(setting(ALGORITHMS[name], knob)), knob
        assert meaning
    listed = {knob for knob, _, _ in found}
    assert listed >= STAPO or ALGORITHMS[name].stapo is None
    plain = AlgorithmConfig()
    changed = {knob for knob in ALL if getattr(ALGORITHMS[name], knob) != getattr(plain, knob)}
    assert changed <= listed


def test_every_setting_is_on_the_index_and_on_the_page_of_an_algorithm_that_reads_it() -> None:
    index = {knob: value for knob, value, _ in ROW.findall(section(page("index"), "Every setting"))}
    assert set(index) == ALL | {"stapo"}
    for knob in ALL:
        assert index[knob] == shown(getattr(AlgorithmConfig(), knob)), knob
    read = {knob for name in ALGORITHMS for knob, _, _ in ROW.findall(section(page(name), "Knobs"))}
    assert read == ALL | STAPO


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_page_names_metrics_that_exist_and_a_command(name: str) -> None:
    named = re.findall(r"`([a-z_]+/[\w]+)`", section(page(name), "Metrics to watch"))
    assert named and set(named) <= set(METRICS)
    assert f"--algorithm {name}\n" in page(name)
    for title in ("Departures and choices", "Run it"):
        assert section(page(name), title).strip()


def test_links_between_pages_lead_somewhere() -> None:
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", path.read_text("utf-8")):
            assert (path.parent / target).is_file(), f"{path.name}: {target}"


def test_every_test_named_beside_a_number_exists() -> None:
    named = TEST.findall(page("reference-numbers"))
    assert len(named) > 30
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{file}::{name}"

"""The report page: everything in one file, nothing hostile in it, on whole, broken and unfinished runs."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError, DataError
from tests.cli.command import agent_gym, assert_one_line_error
from tests.trainers.reports import write_run
from tests.trainers.runs import new_run, train
from trainers.report import write_report
from trainers.report.charts import drawn_metrics
from trainers.report.data import read_run
from trainers.report.intervals import by_task, difference, rate
from trainers.run.folder import RunFolder
from trainers.run.metrics import EVALUATION_METRICS, METRICS
from trainers.settings.reading import resolve_config
from trainers.settings.warnings import WarningName


class Page(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = ("id", "data") in attrs and tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data

    def charts(self, kind: str) -> list[dict[str, str | None]]:
        return [found for tag, found in self.tags if found.get("data-kind") == kind]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A healthy run and a ruined one."""
    root = tmp_path_factory.mktemp("report")
    return write_run(root / "healthy"), write_run(root / "ruined", "algorithm=cispo", ruined=True)


def text_of(*runs: Path, output: Path | None = None) -> str:
    return write_report(runs, output).read_text("utf-8")


def test_the_page_needs_nothing_but_itself(folders: tuple[Path, Path]) -> None:
    for folder in folders:
        page = Page(text_of(folder))
        for _, attributes in page.tags:
            for name in ("src", "href"):
                assert (attributes.get(name) or "#").startswith(("#", "data:"))
        assert not re.search(r"url\(|@import|\bfetch\(", text_of(folder))


def test_hostile_text_stays_text(folders: tuple[Path, Path]) -> None:
    page = Page(text_of(folders[0]))
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in page.tags]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert json.loads(page.data)["runs"][0]["name"] == "healthy"


def test_every_part_of_the_anatomy_is_on_the_page(folders: tuple[Path, Path]) -> None:
    text = text_of(folders[1])
    page = Page(text)
    assert len(page.charts("fan")) == 2
    assert len(page.charts("stack")) == 1
    assert len(page.charts("lanes")) == 1
    drawn = {name for chart in page.charts("lines") for name in json.loads(chart["data-lines"] or "")}
    skipped = ("warning/", "kl_share/", "ratio/positive", "ratio/negative_p", "curriculum/", "stapo/")
    core = {"rollout/success", "optim/grad_norm", "policy/kl_reference", "policy/entropy", "clip/rows_below"}
    core |= {"clip/grad_zero_rows_negative", "groups/uniform_share", "replies/cut_share", "policy/sampler_gap"}
    assert core <= drawn
    assert not [name for name in drawn if name.startswith(skipped[:5])]
    for part in ("ratio collapse", "success collapse", "ended by the detector", "checkpoints/step-00000004"):
        assert part in text
    for part in ("6x6-1", "7x7-2", "Outlier steps", "z 2.5", "Push every box onto a goal.", "invalid format"):
        assert part in text


def test_the_page_counts_iterations_as_the_terminal_does_and_names_what_was_changed(tmp_path: Path) -> None:
    for name, values in {"plain": {}, "changed": {"clip": "cispo", "eps_low": 0.1}}.items():
        RunFolder.create(tmp_path / name, resolve_config({"algorithm": {"name": "grpo", **values}}))
    assert read_run(tmp_path / "plain").algorithm == "grpo"
    assert read_run(tmp_path / "changed").algorithm == "grpo with clip=cispo, eps_low=0.1"
    run = write_run(tmp_path / "run", iterations=3)
    data = read_run(run)
    assert (data.iterations, data.done) == ([1, 2, 3], 3)
    assert [row["iteration"] for row in data.outliers] == [3]  # 2 in the file


def test_the_page_draws_no_metric_that_does_not_exist() -> None:
    evaluations = {f"{kind}/{name}" for kind in ("test", "pool") for name in EVALUATION_METRICS}
    assert drawn_metrics() <= set(METRICS) | evaluations


def test_several_runs_are_compared(folders: tuple[Path, Path], tmp_path: Path) -> None:
    text = text_of(*folders, output=tmp_path / "out" / "both.html")
    page = Page(text)
    assert [run["name"] for run in json.loads(page.data)["runs"]] == ["healthy", "ruined"]
    assert len(page.charts("fan")) == 4
    assert "<code>algorithm_name</code>" in text
    assert "<code>seed</code>" not in text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["both.html"]


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name / "run", iterations=2) for name in ("a", "b")]
    page = Page(text_of(*runs, output=tmp_path / "both.html"))
    assert [run["name"] for run in json.loads(page.data)["runs"]] == ["a/run", "b/run"]
    with pytest.raises(ConfigError, match="twice"):
        write_report([runs[0], runs[0]], tmp_path / "x.html")


def test_a_run_that_has_not_begun_or_lost_its_files_has_a_page(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "new", cold=False)
    assert "0 of 4 iterations" in text_of(folder.path)
    run = write_run(tmp_path / "old", iterations=3)
    for file in (
        "warnings.jsonl",
        "stapo_outliers.jsonl",
        "episodes/test-before.jsonl",
        "episodes/test-after.jsonl",
    ):
        (run / file).unlink()
    text = text_of(run)
    assert "Outlier steps" not in text
    assert "0.500" in text  # the rate of the summary, without an interval


def test_what_cannot_be_reported_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"config\.json"):
        write_report([tmp_path])
    with pytest.raises(ConfigError, match="1 to 8 runs, got 0"):
        write_report([])
    with pytest.raises(ConfigError, match="output"):
        write_report([tmp_path / "a", tmp_path / "b"])


def test_a_long_run_is_thinned_and_keeps_its_last_iteration(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iterations=3)
    row = json.loads((run / "metrics.jsonl").read_text("utf-8").splitlines()[0])
    lines = (json.dumps({**row, "iteration": number, "rollout/success": number / 1e4}) for number in range(4001))
    (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = read_run(run)
    assert len(data.iterations) < 1600
    assert data.iterations[-1] == 4001
    assert data.extremes["best_success"] == 0.4
    assert all(len(values) == len(data.iterations) for values in data.series.values())


def test_training_ends_with_its_page(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=2")
    train(folder)
    text = (folder.path / "report.html").read_text("utf-8")
    assert ">finished<" in text
    page = Page(text)
    prompts = [attributes for tag, attributes in page.tags if attributes.get("class") == "prompt"]
    assert prompts, "prompts are decoded with the run's own tokenizer"
    holding = json.loads(page.data)["runs"][0]["holding"]
    assert set(holding) <= {name.value for name in WarningName}
    assert RunFolder.open(folder.path).summary()["iterations"] == 2


def test_the_command_writes_the_page_and_says_where(folders: tuple[Path, Path], tmp_path: Path) -> None:
    done = agent_gym("report", *map(str, folders), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Report: comparison.html" in done.stderr
    assert (tmp_path / "comparison.html").stat().st_size < 500_000
    assert_one_line_error(agent_gym("report", "nowhere", cwd=tmp_path), "nowhere", "run folder")


# Intervals -----------------------------------------------------------------------------------------------


def test_intervals_of_known_samples() -> None:
    found = rate({str(n): [n < 2] for n in range(10)})
    assert found is not None
    assert (found.value, found.n) == (0.2, 10)
    assert (found.low, found.high) == pytest.approx((0.0567, 0.5098), abs=1e-4)  # Wilson's interval of 2 in 10
    none = rate({str(n): [False] for n in range(10)})
    assert none is not None
    assert (none.low, none.high) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert rate({}) is None
    agreed = rate({str(n): [False, False] for n in range(10)})
    assert agreed == none


def test_tasks_are_the_units_of_repeated_episodes() -> None:
    one = rate(by_task([(str(n), n < 5) for n in range(10)]))
    again = rate(by_task([(str(n), n < 5) for n in range(10) for _ in range(50)]))
    assert one is not None and again is not None
    assert again.n == 10
    assert again.high - again.low > 0.5 * (one.high - one.low)  # repeats do not narrow it


def test_gains_are_compared_task_by_task() -> None:
    before = {str(n): [n < 50] for n in range(100)}
    after = {str(n): [n < 60] for n in range(100)}
    gain = difference(before, after)
    assert gain is not None
    assert gain.value == pytest.approx(0.1)
    assert gain.low > 0.0  # ten tasks gained, none lost
    assert difference({"a": [True]}, {"b": [True]}) is None
    certain = difference({str(n): [False] for n in range(10)}, {str(n): [True] for n in range(10)})
    assert certain is not None
    assert (certain.value, certain.high) == (1.0, 1.0)
    assert 0.3 < certain.low < 0.6  # ten tasks do not prove it


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(max_size=2), st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=9)
)
def test_an_interval_holds_its_value_and_stays_a_share(tasks: dict[str, list[bool]]) -> None:
    found = rate(tasks)
    assert found is not None
    assert -1e-12 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1 + 1e-12

"""Warnings on histories as runs wrote them, and on runs that collapse while they are watched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError
from tests.trainers.runs import assert_equal_runs, copying, metrics, new_run, small_config, summary, train
from trainers.policy.policy import Policy
from trainers.run.checkpoint import CheckpointStore
from trainers.run.detector import ADVICE, RULES, detect, timeline
from trainers.run.folder import RunFolder
from trainers.run.metrics import METRICS
from trainers.run.warnings import read_warnings
from trainers.settings.reading import resolve_config
from trainers.settings.warnings import COLLAPSES, WarningName, check_names

COLUMNS = (
    "rollout/success",
    "rollout/episodes",
    "replies/valid_format",
    "replies/length",
    "replies/cut_share",
    "policy/kl_reference",
    "policy/entropy",
    "optim/grad_norm",
    "filter/kept_share",
    "ratio/negative_rows_low",
)
# CISPO on 16 rooms, four passes at a learning rate of 3e-3: recorded.
COLLAPSING = (
    (0.1641, 128, 0.9986, 7.71, 0.0042, 0.4268, 0.9249, 0.4765, 1, 0.4033),
    (0.0234, 128, 0.4439, 10.02, 0.5444, 1.754, 0.8273, 0.3364, 0.75, 0.4651),
    (0.0000, 128, 0.1120, 11.55, 0.8828, 1.776, 0.6350, 0.0624, 0.0625, 0.4740),
    (0.0469, 128, 0.6230, 4.837, 0.0, 1.542, 0.4337, 0.3309, 0.875, 0.3305),
    (0.0625, 128, 0.9879, 4.082, 0.0, 0.7306, 0.2206, 0.0165, 0.5625, 0.0131),
)
# SAMPO there, one pass at 1e-3; success wavers, one minibatch has a large gradient. The last column is set by hand.
HEALTHY = (
    (0.1629, 264, 0.9884, 7.665, 0.002, 0.027, 0.617, 2.535, 0.36, 0.02),
    (0.1806, 288, 0.9809, 7.657, 0.004, 0.039, 0.686, 1.214, 0.33, 0.01),
    (0.0946, 296, 0.9871, 6.536, 0.004, 0.264, 0.751, 2.728, 0.22, 0.03),
    (0.0642, 296, 0.9735, 5.665, 0.006, 0.332, 0.746, 1.127, 0.22, 0.00),
    (0.1007, 288, 0.9796, 5.186, 0.003, 0.367, 0.691, 2.070, 0.28, 0.00),
    (0.1140, 272, 0.9922, 5.040, 0.002, 0.407, 0.748, 2.651, 0.29, 0.01),
    (0.0954, 304, 0.9937, 5.573, 0.007, 0.340, 0.767, 1.885, 0.24, 0.00),
    (0.1419, 296, 0.9933, 6.051, 0.006, 0.376, 0.793, 18.76, 0.22, 0.05),
    (0.1146, 288, 0.9914, 6.762, 0.023, 0.334, 0.753, 1.902, 0.25, 0.00),
    (0.1513, 304, 0.9958, 6.242, 0.003, 0.228, 0.713, 5.115, 0.29, 0.00),
)


def rows(table: Any) -> list[dict[str, Any]]:
    return [{"iteration": n, **dict(zip(COLUMNS, row, strict=True))} for n, row in enumerate(table)]


def steady(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Return a history without a fault."""
    row = dict(zip(COLUMNS, (0.4, 128, 0.98, 20.0, 0.0, 0.02, 0.5, 1.0, 0.8, 0.01), strict=True))
    return [{"iteration": n, **row, "policy/sampler_gap": 1e-4, **changes} for n in range(count)]


def names(history: list[dict[str, Any]]) -> set[WarningName]:
    return {warning.name for warning in detect(history)}


def test_a_collapsing_run_is_named_at_its_second_and_third_iteration() -> None:
    found = {(warning.iteration, warning.name) for warning in timeline(rows(COLLAPSING))}
    assert found == {
        (1, WarningName.RATIO_COLLAPSE),
        (1, WarningName.KL_BLOW_UP),
        (1, WarningName.LENGTH_BLOW_UP),
        (2, WarningName.SUCCESS_COLLAPSE),
    }
    (ratio,) = [w for w in detect(rows(COLLAPSING)[:2]) if w.name is WarningName.RATIO_COLLAPSE]
    assert "47%" in ratio.sentence
    assert "from 100% to 44%" in ratio.sentence


def test_a_wavering_run_gets_no_warning_but_for_its_gradient() -> None:
    found = [(warning.iteration, warning.name) for warning in timeline(rows(HEALTHY))]
    assert found == [(7, WarningName.GRADIENT_EXPLOSION)]


def test_a_steady_run_is_silent_from_its_first_iteration_on() -> None:
    assert timeline(steady(30)) == []
    assert detect([]) == []
    assert detect([{"iteration": 0}] * 9) == []


@pytest.mark.parametrize(
    ("name", "change", "count"),
    [
        (WarningName.GRADIENT_EXPLOSION, {"optim/grad_norm": 9.0}, 1),
        (WarningName.GRADIENT_EXPLOSION, {"optim/skipped_steps": 2.0}, 1),
        (WarningName.KL_BLOW_UP, {"policy/kl_reference": 0.6}, 1),
        (WarningName.KL_BLOW_UP, {"policy/kl_reference": None, "policy/drift": 1.4}, 1),
        (WarningName.ENTROPY_COLLAPSE, {"policy/entropy": 0.02}, 3),
        (WarningName.LENGTH_BLOW_UP, {"replies/length": 45.0, "replies/cut_share": 0.12}, 1),
        (WarningName.LENGTH_BLOW_UP, {"replies/cut_share": 0.3}, 1),
        (WarningName.SUCCESS_COLLAPSE, {"rollout/success": 0.1}, 2),
        (WarningName.NO_SIGNAL, {"filter/kept_share": 0.05}, 5),
        (WarningName.SAMPLER_MISMATCH, {"policy/sampler_gap": 0.2}, 1),
    ],
)
def test_each_fault_is_named_alone_and_only_once_it_lasts(
    name: WarningName, change: dict[str, Any], count: int
) -> None:
    before, fault = steady(8), steady(count, **change)
    if "policy/drift" in change:
        before = [{**row, "policy/kl_reference": None, "policy/drift": 0.01} for row in before]
    for row in fault:
        row["iteration"] += 8
    assert names(before + fault) == {name}
    assert names(before + fault[:-1]) == set()


def test_chance_alone_is_no_collapse_of_success() -> None:
    few = [{**row, "rollout/episodes": 8} for row in steady(8)]
    assert names([*few, *steady(2, **{"rollout/success": 0.1, "rollout/episodes": 8})]) == set()


def test_a_run_of_many_iterations_is_watched_in_time_that_grows_with_it() -> None:
    history = steady(3000)
    assert timeline([*history, *steady(2, **{"rollout/success": 0.1})])[-1].name is WarningName.SUCCESS_COLLAPSE


def test_a_harder_stage_of_a_curriculum_is_no_collapse() -> None:
    easy = steady(8, **{"curriculum/stage": 1.0})
    assert names([*easy, *steady(2, **{"curriculum/stage": 2.0, "rollout/success": 0.05})]) == set()
    mixed = steady(8, **{"env/Sokoban/stage": 1.0})
    assert names([*mixed, *steady(2, **{"env/Sokoban/stage": 2.0, "rollout/success": 0.05})]) == set()


@given(st.integers(1, len(COLLAPSING)))
def test_the_timeline_of_a_part_is_a_part_of_the_timeline(end: int) -> None:
    whole = timeline(rows(COLLAPSING))
    assert timeline(rows(COLLAPSING)[:end]) == [warning for warning in whole if warning.iteration < end]


def test_every_warning_has_a_rule_advice_and_a_metric() -> None:
    assert set(RULES) == set(ADVICE) == set(WarningName)
    assert {f"warning/{name}" for name in WarningName} <= set(METRICS)


def test_names_to_stop_on_are_checked_and_collapse_stands_for_two() -> None:
    assert check_names(["collapse"]) == COLLAPSES
    assert check_names([]) == frozenset()
    with pytest.raises(ConfigError, match="no_signal"):
        check_names(["no_signals"])
    with pytest.raises(ConfigError, match="kl_blow_up"):
        resolve_config({"run": {"stop_on": ["kl_blowup"]}})
    assert resolve_config({"run": {"stop_on": "collapse"}}).run.stop_on == ("collapse",)
    assert small_config("run.stop_on=collapse,no_signal").run.stop_on == ("collapse", "no_signal")


# Runs ----------------------------------------------------------------------------------------------------

RUINOUS = (
    "algorithm=cispo",
    "optim.passes=4",
    "optim.learning_rate=0.3",
    "optim.minibatch_rows=16",
    "rollout.groups=8",
    "iterations=12",
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose learning rate is far too high, to be ended by the detector."""
    folder = new_run(tmp_path_factory.mktemp("ruin") / "run", *RUINOUS, "run.stop_on=collapse,kl_blow_up")
    train(folder)
    return folder


def test_a_ruined_run_is_ended_with_its_best_policy(stopped: RunFolder) -> None:
    found = summary(stopped.path)
    done = found["iterations"]
    assert done < 12
    assert found["stopped"]["iteration"] == done - 1 == metrics(stopped.path)[-1]["iteration"]
    assert found["stopped"]["name"] in {*COLLAPSES, WarningName.KL_BLOW_UP}
    kept = found["stopped"]["best"]
    best = Policy.load(stopped.path / kept["path"] / ("model" if kept["step"] else ""), device="cpu")
    assert best.checksum() == found["checksum"]
    assert found["after"]["test"]["n_ok"] == 4


def test_the_sampler_goes_back_with_the_policy(
    stopped: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainers.parts.make_sampler", copying)
    folder = new_run(tmp_path / "run", *RUINOUS, "run.stop_on=collapse,kl_blow_up")
    train(folder)
    assert_equal_runs(stopped.path, folder.path)


def test_warnings_are_in_the_file_and_in_the_metrics(stopped: RunFolder) -> None:
    history = metrics(stopped.path)
    written = read_warnings(stopped.path)
    assert [(row["iteration"], row["name"]) for row in written] == [
        (warning.iteration, warning.name) for warning in timeline(history)
    ]
    assert all(row["sentence"] and row["advice"] for row in written)
    for number, row in enumerate(history):
        holding = names(history[: number + 1])
        assert {name for name in WarningName if row[f"warning/{name}"]} == holding


def test_a_run_that_the_detector_ended_stays_ended(stopped: RunFolder) -> None:
    before = (summary(stopped.path), metrics(stopped.path), read_warnings(stopped.path))
    train(RunFolder.open(stopped.path))
    assert (summary(stopped.path), metrics(stopped.path), read_warnings(stopped.path)) == before


def test_without_stop_on_a_ruined_run_goes_on_and_warns(tmp_path: Path, stopped: RunFolder) -> None:
    folder = new_run(tmp_path / "run", *RUINOUS, f"iterations={summary(stopped.path)['iterations'] + 1}")
    train(folder)
    assert "stopped" not in summary(folder.path)
    assert read_warnings(folder.path)[: len(read_warnings(stopped.path))] == read_warnings(stopped.path)


def test_checkpoints_are_scored_by_the_success_that_their_policy_had(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=3", "run.stop_on=no_signal", "run.keep_checkpoints=3")
    train(folder)
    scores = [json.loads(p.read_text("utf-8"))["score"] for p in sorted(folder.checkpoints.glob("*/manifest.json"))]
    assert scores == [*(row["rollout/success"] for row in metrics(folder.path)[1:]), None]
    best = CheckpointStore(folder.checkpoints).best()
    assert best is not None
    assert best.score == max(score for score in scores if score is not None)

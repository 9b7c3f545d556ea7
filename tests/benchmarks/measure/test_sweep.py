from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from agent_gym.support.errors import ConfigError
from agent_gym.support.locks import BusyError
from benchmarks.measure.sweep.config import STABILITY, SweepConfig
from benchmarks.measure.sweep.plot import plot
from benchmarks.measure.sweep.report import collect, markdown, verdict, write
from benchmarks.measure.sweep.runner import is_finished, run_path, run_sweep
from trainers.run.folder import RunFolder, open_run
from trainers.run.reporter import SilentReporter
from trainers.run.tracking import read_metrics
from trainers.settings.algorithm import ImportanceLevel

SETTINGS = {
    "iterations": 2,
    "device": "cpu",
    "env": {
        "id": "agent_gym/Sokoban-v0",
        "options": {"max_actions_per_turn": 3, "max_turns": 3},
        "prompt": "compact",
        "history_length": 0,
    },
    "cloning": {"episodes": 16, "batch_size": 16},
    "rollout": {"groups": 2, "group_size": 2, "max_reply_tokens": 4, "max_context_tokens": 128},
    "optim": {"passes": 2, "minibatch_rows": 4, "learning_rate": 1e-3},
    "evaluation": {"episodes": 2},
    "run": {"checkpoint_every": 1},
}


class StopError(Exception):
    pass


class Stopping(SilentReporter):
    """Breaks off the first run with iterations after its first one."""

    def iteration(self, number, total, metrics, seconds):
        raise StopError


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return a sweep, its folder and the runs that were begun, after one interruption."""
    folder = tmp_path_factory.mktemp("sweep")
    sweep = SweepConfig("toy", {"sampo": {"eps_low": 0.15, "eps_high": 0.2}, "cispo": {}}, (0,), SETTINGS)
    with pytest.raises(StopError):
        run_sweep(sweep, folder, Stopping())
    begun = []
    run_sweep(sweep, folder, SilentReporter(), lambda name, seed: begun.append(name))
    return sweep, folder, begun


def test_all_runs_of_a_seed_start_from_one_cloned_policy(swept):
    sweep, folder, _ = swept
    weights = [
        (path / "reference" / "model.safetensors").read_bytes()
        for path in (folder / "starts" / "seed-0", *(run_path(folder, name, 0) for name in sweep.algorithms))
    ]
    assert weights[0] == weights[1] == weights[2]
    summaries = [RunFolder.open(run_path(folder, name, 0)).summary() for name in sweep.algorithms]
    assert summaries[0]["before"] == summaries[1]["before"]
    assert summaries[0]["checksum"] != summaries[1]["checksum"]


def test_a_stopped_sweep_goes_on_and_finished_runs_stay(swept):
    sweep, folder, begun = swept
    assert begun == ["sampo", "cispo"]  # the cold start was finished before the interruption
    for name in sweep.algorithms:
        assert is_finished(run_path(folder, name, 0))
        assert [row["iteration"] for row in read_metrics(run_path(folder, name, 0))] == [0, 1]
    again = []
    run_sweep(sweep, folder, SilentReporter(), lambda name, seed: again.append(name))
    assert again == []


def test_runs_of_other_settings_in_the_folder_are_refused(swept):
    sweep, folder, _ = swept
    with pytest.raises(ConfigError, match="other settings"):
        run_sweep(sweep.restricted(None, None, 3), folder, SilentReporter())


def test_runs_and_starts_that_another_process_trains_are_left_to_it(swept):
    sweep, folder, _ = swept
    for path in (folder / "starts" / "seed-0", run_path(folder, "cispo", 0)):
        with open_run(path, None), pytest.raises(BusyError, match=rf"{path.name} is being trained by process \d+"):
            run_sweep(sweep, folder, SilentReporter())
    held = []

    def begin(name, seed):
        with pytest.raises(BusyError), open_run(run_path(folder, name, seed), None):
            raise AssertionError
        held.append(name)
        raise StopError

    more = SweepConfig("toy", {**sweep.algorithms, "grpo": {}}, (0,), SETTINGS)
    with pytest.raises(StopError):
        run_sweep(more, folder, SilentReporter(), begin)
    assert held == ["grpo"]
    assert not run_path(folder, "grpo", 0).exists()  # nothing was made in it


def test_table_numbers_and_figure_are_written(swept):
    sweep, folder, _ = swept
    report = collect(sweep, folder)
    write(report, folder)
    plot(report, folder / "sweep.png")
    stored = json.loads((folder / "sweep.json").read_text())
    assert [len(run["series"]["success"]) for runs in stored["algorithms"].values() for run in runs] == [2, 2]
    text = (folder / "sweep.md").read_text()
    assert "| `sampo` |" in text
    assert "| `cispo` |" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert (folder / "sweep.png").read_bytes()[:4] == b"\x89PNG"


def run_of(seed, before, after, **series):
    named = {name: [None, 0.5] for name in ("success", "grad_norm", "kl", "valid_format", "grad_norm_max")}
    rest = {"reply_length": [8.0], "episodes": [128.0], "drift": [0.0], "entropy": [0.1]}
    return {
        "seed": seed,
        "before": before,
        "after": after,
        "test_before": before,
        "test_after": after,
        "collapsed": after < 0.5 * before,
        "seconds": 1.0,
        "series": named | rest | series,
    }


def test_collapse_is_told_by_seeds_and_missing_metrics_are_shown_as_missing():
    runs = {
        "grpo": [run_of(0, 0.4, 0.1), run_of(1, 0.4, 0.5)],
        "cispo": [run_of(0, 0.4, 0.0, kl=[None, None])],
        "sampo": [run_of(0, 0.4, 0.6)],
        "sapo": [],
    }
    lines = verdict({"algorithms": runs})
    assert lines[1:] == [
        "- Collapsed in every seed: `cispo`.",
        "- Collapsed in some seeds: `grpo`.",
        "- Collapsed in no seed: `sampo`.",
    ]
    table = markdown({"algorithms": runs})
    assert "| 1 of 2 |" in table
    assert "| - |" in next(line for line in table.splitlines() if "cispo" in line)
    assert "sapo" not in table


def test_the_share_of_outlier_turns_has_a_column_where_a_run_has_any():
    plain = {"gigpo": [run_of(0, 0.4, 0.5)]}
    assert "outlier" not in markdown({"algorithms": plain})
    table = markdown({"algorithms": plain | {"stapo": [run_of(0, 0.4, 0.5, outlier_share=[0.04, 0.08])]}})
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert [row.split("|")[-2].strip() for row in rows] == ["outlier turns", "---:", "-", "0.060"]


STUDIED = [
    "grpo", "gspo", "gigpo", "cispo", "sapo", "cispo_mask", "sapo_mask",
    "sampo", "sampo_trajectory", "stapo", "stapo_sampo",
]  # fmt: skip


@pytest.mark.parametrize("name", ["stability", "stability-alfworld"])
def test_both_stability_sweeps_hold_the_same_algorithms_at_one_setting(name):
    sweep = SweepConfig.read(STABILITY.with_name(f"{name}.toml"))
    assert list(sweep.algorithms) == STUDIED
    assert len(sweep.seeds) == 3
    configs = {name: sweep.run_config(name, 1) for name in sweep.algorithms}
    assert len({(config.optim, config.rollout.groups, config.iterations) for config in configs.values()}) == 1
    assert configs["sampo"].optim.passes > 1
    assert configs["sampo_trajectory"].algorithm.importance_level is ImportanceLevel.TRAJECTORY
    assert configs["cispo_mask"].algorithm.sequence_mask_delta == 0.223
    assert {config.seed for config in configs.values()} == {1}


def test_the_ablations_of_stapo_differ_from_it_in_one_setting_each():
    sweep = SweepConfig.read(STABILITY.with_name("stapo-ablation.toml"))
    whole = dataclasses.asdict(sweep.run_config("stapo", 0).algorithm.stapo)
    for name in set(sweep.algorithms) - {"gigpo", "stapo"}:
        other = dataclasses.asdict(sweep.run_config(name, 0).algorithm.stapo)
        assert sum(whole[key] != other[key] for key in whole) == 1, name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = [0]", "needs name"),
        ("nmae = 'x'", "no field 'nmae'.*name"),
        ("name='x'\nseeds=[]\n[algorithms]\nsampo={}\n[settings]", "at least one"),
        ("name='x'\nseeds=[0]\n[algorithms]\nsampoo={}\n[settings]", "sampoo"),
        ("name='x'\nseeds=[0]\n[algorithms]\nsampo={}\n[settings]\nseed=3", "must not hold 'seed'"),
    ],
)
def test_malformed_sweep_files_are_refused(tmp_path, text, message):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        SweepConfig.read(path)


def test_the_command_names_unknown_algorithms(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "agent_gym.cli.main",
            "bench",
            "sweep",
            "--output",
            str(tmp_path),
            "--only",
            "sapmo",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no algorithm 'sapmo'" in done.stderr

"""What the finished runs of a sweep show: numbers, a table in Markdown, and a word on who collapsed.

Success is that on the training pool where the runs have one, else on test tasks. A run counts as collapsed when
it solves less than half of what the policy that it started from solves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.measure.sweep.config import SweepConfig
from benchmarks.measure.sweep.runner import is_finished, run_path
from trainers.evaluate import POOL, TEST
from trainers.run.folder import RunFolder
from trainers.run.tracking import read_metrics
from trainers.settings.reading import to_values

SERIES = {
    "success": "rollout/success",
    "grad_norm": "optim/grad_norm",
    "kl": "policy/kl_reference",
    "valid_format": "replies/valid_format",
}
"""What is plotted -> metric of an iteration."""
_OTHERS = {
    "drift": "policy/drift",
    "entropy": "policy/entropy",
    "grad_norm_max": "optim/grad_norm_max",
    "reply_length": "replies/length",
    "episodes": "rollout/episodes",
    "outlier_share": "stapo/outlier_share",
}
_COLLAPSE = 0.5
_NONE = "-"
_HEAD = (
    "algorithm",
    "success before",
    "after",
    "after, by seed",
    "collapsed",
    "test before",
    "after",
    "largest gradient norm",
    "largest KL",
    "least valid format",
    "reply tokens",
    "episodes",
    "seconds",
)


def collect(sweep: SweepConfig, folder: Path) -> dict[str, Any]:
    """Return the numbers of the finished runs.

    Returns:
        `algorithms`: name -> list of runs, each with seed, success `before` and `after` on `tasks`, series by
        iteration and whether it collapsed; `settings`: those of all runs.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for algorithm in sweep.algorithms:
        paths = {seed: run_path(folder, algorithm, seed) for seed in sweep.seeds}
        found[algorithm] = [_run(path, seed) for seed, path in paths.items() if is_finished(path)]
    first = next(iter(sweep.algorithms))
    settings = to_values(sweep.run_config(first, sweep.seeds[0]))
    for name in ("algorithm", "algorithm_name", "seed"):
        del settings[name]
    overrides = {name: dict(values) for name, values in sweep.algorithms.items()}
    return {"name": sweep.name, "settings": settings, "overrides": overrides, "algorithms": found}


def _run(path: Path, seed: int) -> dict[str, Any]:
    run = RunFolder.open(path)
    summary, rows = run.summary(), read_metrics(path)
    played = POOL if POOL in summary["after"] else TEST
    before, after = summary["before"][played], summary["after"][played]
    series = {name: [row.get(key) for row in rows] for name, key in (SERIES | _OTHERS).items()}
    return {
        "seed": seed,
        "before": before["success"],
        "after": after["success"],
        "tasks": played,
        "episodes": after["n_ok"],
        "test_before": summary["before"][TEST]["success"],
        "test_after": summary["after"][TEST]["success"],
        "valid_format_after": after["valid_format"],
        "collapsed": after["success"] < _COLLAPSE * before["success"],
        "seconds": sum(sum(row.get("seconds", {}).values()) for row in rows),
        "series": series,
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Return table and summary as Markdown; the share of STAPO's outliers has a column where a run has any."""
    finished = {name: runs for name, runs in report["algorithms"].items() if runs}
    rows = [_cells(name, runs) for name, runs in finished.items()]
    head = list(_HEAD)
    outliers = [_form(_mean_of(runs, "outlier_share"), ".3f") for runs in finished.values()]
    if any(cell != _NONE for cell in outliers):
        head.append("outlier turns")
        rows = [[*row, cell] for row, cell in zip(rows, outliers, strict=True)]
    lines = [_line(head), "|---|" + "---:|" * (len(head) - 1), *map(_line, rows)]
    return "\n".join([*lines, "", *verdict(report), ""])


def _cells(name: str, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    by_seed = ", ".join(f"{run['after']:.2f}" for run in runs)
    return [
        f"`{name}`",
        f"{fmean(run['before'] for run in runs):.3f}",
        f"{fmean(run['after'] for run in runs):.3f}",
        by_seed,
        f"{sum(run['collapsed'] for run in runs)} of {len(runs)}",
        f"{fmean(run['test_before'] for run in runs):.3f}",
        f"{fmean(run['test_after'] for run in runs):.3f}",
        _form(_over(runs, "grad_norm_max", max), ".3g"),
        _form(_over(runs, "kl", max), ".3g"),
        _form(_over(runs, "valid_format", min), ".2f"),
        _form(_mean_of(runs, "reply_length"), ".1f"),
        f"{fmean(sum(known(run['series']['episodes'])) for run in runs):,.0f}",
        f"{fmean(run['seconds'] for run in runs):.0f}",
    ]


def verdict(report: Mapping[str, Any]) -> list[str]:
    """Return the sentences on which algorithms collapsed, in the words of the definition."""
    always: list[str] = []
    sometimes: list[str] = []
    never: list[str] = []
    for name, runs in report["algorithms"].items():
        n = sum(run["collapsed"] for run in runs)
        if runs:
            (always if n == len(runs) else sometimes if n else never).append(f"`{name}`")
    lines = ["A run counts as collapsed when it solves less than half of what its start solved."]
    for what, names in (
        ("Collapsed in every seed", always),
        ("Collapsed in some seeds", sometimes),
        ("Collapsed in no seed", never),
    ):
        lines.append(f"- {what}: {', '.join(names) or 'none'}.")
    return lines


def known(values: Sequence[float | None]) -> list[float]:
    """Return the values that are finite numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


def _over(runs: Sequence[Mapping[str, Any]], name: str, pick: Any) -> float | None:
    values = [value for run in runs for value in known(run["series"][name])]
    return float(pick(values)) if values else None


def _mean_of(runs: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [value for run in runs for value in known(run["series"].get(name, ()))]
    return fmean(values) if values else None


def _form(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Write `sweep.json` and `sweep.md` into the folder."""
    (folder / "sweep.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    (folder / "sweep.md").write_text(markdown(report), "utf-8")

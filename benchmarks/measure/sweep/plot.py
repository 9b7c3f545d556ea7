"""The figure of a sweep: success, gradient norm, KL and valid format by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure.plotting import load_pyplot

_PANELS = (
    ("success", "success of sampled episodes", False),
    ("grad_norm", "gradient norm before clipping", True),
    ("kl", "KL to the start, nats per token", True),
    ("valid_format", "replies of valid format", False),
)
_LEAST = 1e-6  # log axes show nothing below
_COLOURS = 10
_DASHES = ("-", "--", ":")


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Draw the mean over seeds as a line and least to most as a band, for each algorithm.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), sharex=True, constrained_layout=True)
    for axis, (name, title, log) in zip(axes.flat, _PANELS, strict=True):
        for number, (algorithm, runs) in enumerate(report["algorithms"].items()):
            if runs:
                _draw(axis, number, algorithm, _curves(runs, name), log)
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.25)
        if log:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=-0.02)
    for axis in axes[1]:
        axis.set_xlabel("iteration")
    handles, labels = axes[0][0].get_legend_handles_labels()
    axes[1][0].xaxis.get_major_locator().set_params(integer=True)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 7) or 1, fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw(axis: Any, number: int, label: str, curves_SI: NDArray[np.float64], log: bool) -> None:
    colour, dash = f"C{number % _COLOURS}", _DASHES[number // _COLOURS % len(_DASHES)]
    if log:
        curves_SI = np.maximum(curves_SI, _LEAST)
    seen = ~np.isnan(curves_SI).all(axis=0)
    where = np.arange(1, curves_SI.shape[1] + 1)[seen]
    shown = curves_SI[:, seen]
    axis.plot(where, np.nanmean(shown, axis=0), color=colour, linestyle=dash, label=label, linewidth=1.6)
    axis.fill_between(
        where, np.nanmin(shown, axis=0), np.nanmax(shown, axis=0), color=colour, alpha=0.08, linewidth=0
    )


def _curves(runs: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    """Return the series of all seeds, [seeds, iterations], nan where there is no value."""
    length = max(len(run["series"][name]) for run in runs)
    curves_SI = np.full((len(runs), max(length, 1)), np.nan)
    for row, run in enumerate(runs):
        values = [np.nan if value is None else value for value in run["series"][name]]
        curves_SI[row, : len(values)] = values
    return curves_SI

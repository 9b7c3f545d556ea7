"""One training iteration here beside one of TRL's GRPOTrainer: tokens per second and memory."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks.measure.child import run_module
from benchmarks.measure.figures import figure_table, versions
from benchmarks.measure.throughput.trainer.iterations import make_job
from benchmarks.measure.throughput.upstream.interpreters import run_original

PARTS = ("sampling", "update", "total")
_TRL_MISSING = (
    "TRL is not installed for {python}. To measure it: pip install -c constraints.txt trl==1.16.0 datasets, into "
    "this environment or another one named by --upstream ({error})"
)


def measure_trainer(
    upstream: Path | None,
    *,
    groups: int,
    group_size: int,
    reply_tokens: int,
    iterations: int,
    model: Path | None = None,
) -> dict[str, Any]:
    """Return the figures of both sides.

    Args:
        upstream: Interpreter that has TRL; this one when None.
        groups: Prompts of a batch.
        group_size: Replies to each.
        reply_tokens: Longest reply.
        iterations: Iterations of which the median counts.
        model: Folder of a model; a small one is built when None.

    Raises:
        AgentGymError: A measurement failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = make_job(
            Path(folder),
            groups=groups,
            group_size=group_size,
            reply_tokens=reply_tokens,
            iterations=iterations,
            model=model,
        )
        ours = run_module("benchmarks.measure.throughput.trainer.iterations", job)
        theirs, missing = run_original("trl_script", upstream, job, _TRL_MISSING)
    figures: dict[str, Any] = {
        "suite": "trainer",
        **versions(),
        "upstream_missing": missing,
        "versions": theirs.get("versions"),
        "parameters": job["parameters"],
        "groups": groups,
        "group_size": group_size,
        "reply_tokens": reply_tokens,
        "ours": summarise(ours),
        "trl": None if missing else summarise(theirs),
    }
    if figures["trl"] is not None:
        figures["ratios"] = {part: figures["ours"][part] / figures["trl"][part] for part in PARTS}
    return figures


def summarise(side: Mapping[str, Any]) -> dict[str, Any]:
    """Return reply tokens per CPU second of each part, medians over the iterations that count, and peak memory."""
    steps: Sequence[Mapping[str, float]] = side["steps"][1:-1]
    rates = {part: median(step["reply_tokens"] / step[part] for step in steps) for part in PARTS}
    return {
        **rates,
        "seconds": median(step["total"] for step in steps),
        "reply_tokens": median(step["reply_tokens"] for step in steps),
        "peak_mib": side["peak_mib"],
    }


def trainer_table(figures: Mapping[str, Any]) -> Table:
    """Return the comparison as a table; the ratio is ours to TRL's."""
    title = (
        f"One iteration, {figures['groups']} x {figures['group_size']} replies of up to {figures['reply_tokens']} "
        f"tokens, {figures['parameters'] / 1e6:.2f} million weights, one thread"
    )
    name = "TRL" if not figures["versions"] else f"TRL {figures['versions']['trl']}"
    table = figure_table(title, ("what", "ours", name, "ratio"))
    ours, theirs = figures["ours"], figures["trl"]
    for part in PARTS:
        other = None if theirs is None else theirs[part]
        ratio = "" if other is None else f"{ours[part] / other:.2f}x"
        table.add_row(f"reply tokens per CPU second, {part}", f"{ours[part]:,.0f}", _shown(other), ratio)
    for key, label in (
        ("seconds", "CPU seconds"),
        ("reply_tokens", "reply tokens"),
        ("peak_mib", "growth of peak memory, MiB"),
    ):
        other = None if theirs is None else theirs[key]
        table.add_row(label, f"{ours[key]:,.2f}", "-" if other is None else f"{other:,.2f}", "")
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"

"""The subcommands of this package: each module adds its own."""

from __future__ import annotations

import typer

from benchmarks.evaluation import cli as eval_cli
from benchmarks.evaluation.leaderboard import cli as leaderboard_cli
from benchmarks.evaluation.viewer import cli as viewer_cli
from benchmarks.measure import cli as bench_cli


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    for module in (eval_cli, leaderboard_cli, viewer_cli, bench_cli):
        module.register(app)

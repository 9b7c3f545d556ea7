"""Runs a sweep, one run after the other in one process; what is finished stays, what is not goes on.

| folder | what |
|---|---|
| `starts/seed-0` | run without iterations: the cloned policy that all runs of the seed start from |
| `runs/sampo-seed-0` | run folder of one algorithm and seed |
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_gym.support.errors import ConfigError
from agent_gym.support.files import settle
from benchmarks.measure.sweep.config import SweepConfig
from trainers.loop import Trainer
from trainers.run.folder import CONFIG, RunFolder, open_run
from trainers.run.reporter import Reporter
from trainers.settings.run import TrainConfig

_SHARED = ("before", "cold_start")  # parts of a summary that all runs of a seed have in common


def run_path(folder: Path, algorithm: str, seed: int) -> Path:
    """Return the run folder of an algorithm and seed."""
    return folder / "runs" / f"{algorithm}-seed-{seed}"


def is_finished(path: Path) -> bool:
    """Return whether a folder holds a run that was evaluated after its last iteration."""
    return (path / CONFIG).is_file() and "after" in RunFolder.open(path).summary()


def run_sweep(
    sweep: SweepConfig,
    folder: Path,
    reporter: Reporter,
    on_run: Callable[[str, int], None] | None = None,
) -> None:
    """Run what is not finished.

    Seeds come one after the other, so that a sweep that is stopped has compared all algorithms on some seeds.

    Args:
        sweep: What to run.
        folder: Folder of the sweep.
        reporter: Told of the progress of each run.
        on_run: Called with algorithm and seed before each run that is not finished.

    Raises:
        BusyError: Another process trains one of the runs that are not finished.
        ConfigError: A run in the folder has other settings.
    """
    for seed in sweep.seeds:
        with _opened(folder / "starts" / f"seed-{seed}", sweep.start_config(seed)) as start:
            if not is_finished(start.path):
                if on_run is not None:
                    on_run("cold start", seed)
                Trainer(start, reporter).run()
        for algorithm in sweep.algorithms:
            with _opened(run_path(folder, algorithm, seed), sweep.run_config(algorithm, seed)) as run:
                if is_finished(run.path):
                    continue
                if on_run is not None:
                    on_run(algorithm, seed)
                _begin_from(run, start)
                Trainer(run, reporter).run()


@contextmanager
def _opened(path: Path, config: TrainConfig) -> Iterator[RunFolder]:
    """Make the folder of a run, or open the one that was begun with the same settings, for this process alone."""
    begun = (path / CONFIG).is_file()
    with open_run(path, None if begun else config) as run:
        if run.config() != config:
            raise ConfigError(
                f"the run in {path} has other settings than this sweep; give another --output, or the settings "
                "it was begun with"
            )
        yield run


def _begin_from(run: RunFolder, start: RunFolder) -> None:
    """Give a run the policy that another one has cloned, and what is known of it."""
    if run.reference.is_dir():
        return
    shared: dict[str, Any] = {name: start.summary()[name] for name in _SHARED}
    run.update_summary(shared)
    partial = run.path / ".tmp-start"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(start.reference, partial)
    settle(partial, run.reference)

"""Training runs of seconds: easy 6x6 rooms, five turns, a policy of seven thousand weights."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agent_gym.play.episode import Episode, read_episodes
from agent_gym.play.reply import Sample
from trainers.loop import Trainer
from trainers.policy.policy import Policy
from trainers.rollout.samplers.hf import HFSampler
from trainers.run.folder import RunFolder
from trainers.run.reporter import SilentReporter
from trainers.run.tracking import read_metrics
from trainers.settings.reading import merge, resolve_config
from trainers.settings.rollout import RolloutSettings
from trainers.settings.run import TrainConfig

SMALL: dict[str, Any] = {
    "algorithm": {"name": "sampo", "eps_low": 0.15, "eps_high": 0.2},
    "iterations": 4,
    "env": {
        "id": "agent_gym/Sokoban-v0",
        "options": {"max_moves": 5, "max_turns": 5},
        "prompt": "compact",
        "history_length": 0,
    },
    "model": {"path": "tiny", "hidden": 16, "layers": 1, "heads": 2},
    "cloning": {"episodes": 48, "batch_size": 16, "learning_rate": 1e-2, "epochs": 6},
    "rollout": {"groups": 3, "group_size": 4, "max_reply_tokens": 6, "max_context_tokens": 192, "max_parallel": 12},
    "optim": {"learning_rate": 3e-3},
    "evaluation": {"episodes": 4},
    "run": {"checkpoint_every": 1, "episodes_every": 1, "episodes_groups": 8},
}


def small_config(*overrides: str) -> TrainConfig:
    """Return the settings of the small run with overrides as on the command line."""
    return resolve_config(merge(SMALL, overrides))


@functools.cache
def _cold_start() -> Path:
    """Return a run folder after its cold start, made once a session."""
    folder = RunFolder.create(Path(tempfile.mkdtemp(prefix="cold-")) / "run", small_config("iterations=0"))
    Trainer(folder, SilentReporter()).run()
    (folder.episodes / "test-after.jsonl").unlink()
    return folder.path


def new_run(path: Path, *overrides: str, cold: bool = True) -> RunFolder:
    """Return a new run folder; with `cold`, the cold start and the first evaluation are done already."""
    folder = RunFolder.create(path, small_config(*overrides))
    if cold:
        done = _cold_start()
        shutil.copytree(done / "reference", folder.reference)
        shutil.copytree(done / "episodes", folder.episodes, dirs_exist_ok=True)
        known = json.loads((done / "summary.json").read_text("utf-8"))
        folder.update_summary({name: known[name] for name in ("cold_start", "before")})
    return folder


def train(folder: RunFolder, should_stop: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Run the trainer without output."""
    return Trainer(folder, SilentReporter(), should_stop).run()


def stop_after(count: int) -> Callable[[], bool]:
    """Return a `should_stop` that turns true when `count` iterations are done."""
    asked = itertools.count()
    return lambda: next(asked) >= count


class CopyingSampler(HFSampler):
    """Draws from a copy of the weights as they were at the last `sync`, as engines with weights of their own do.

    The copy takes the place of the weights for as long as it is drawn from: elsewhere in memory kernels may round
    otherwise.
    """

    def sync(self, policy: Policy) -> None:
        """Copy the weights."""
        super().sync(policy)
        self._copy = [value.detach().clone() for value in policy.parameters()]

    def generate(self, *arguments: Any) -> list[Sample]:
        """Draw from the copy."""
        trained = [value.detach().clone() for value in self._policy.parameters()]
        self._put(self._copy)
        try:
            return super().generate(*arguments)
        finally:
            self._put(trained)

    @torch.no_grad()
    def _put(self, weights: list[torch.Tensor]) -> None:
        for value, given in zip(self._policy.parameters(), weights, strict=True):
            value.copy_(given)


def copying(policy: Policy, rollout: RolloutSettings) -> CopyingSampler:
    """Take the place of `make_sampler`."""
    return CopyingSampler(policy, max_batch=rollout.max_parallel)


def assert_equal_runs(one: Path, other: Path) -> None:
    """Check that two runs are the same bit for bit: weights, metrics, what was said, results."""
    assert summary(one).get("checksum") == summary(other).get("checksum")
    assert metrics(one) == metrics(other)
    assert episode_texts(one) == episode_texts(other)
    assert summary(one) == summary(other)


def metrics(path: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run without its timings."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in read_metrics(path)]


def episode_texts(path: Path) -> dict[str, list[Any]]:
    """Return what every recorded episode said and earned, by file."""
    return {
        file.name: [_said(episode) for episode in read_episodes(file)]
        for file in sorted((path / "episodes").glob("*.jsonl"))
    }


def _said(episode: Episode) -> Any:
    turns = [(turn.observation, turn.reply, turn.reply_ids, turn.logprobs, turn.reward) for turn in episode.turns]
    return (episode.task_id, episode.seed, episode.group_id, turns, episode.final_observation)


def summary(path: Path) -> dict[str, Any]:
    """Return a run's summary without its timings."""
    found: dict[str, Any] = json.loads((path / "summary.json").read_text("utf-8"))
    found.get("cold_start", {}).pop("seconds", None)
    return found

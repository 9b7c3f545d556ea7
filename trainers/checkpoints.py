"""The checkpoints of a run, in one process or several: where to go on, what to keep, which policy was the best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agent_gym.support.errors import DataError
from trainers.context import RunContext
from trainers.parts import ENVS, RunParts
from trainers.policy.policy import Policy
from trainers.run.checkpoint import Checkpoint, CheckpointStore, Savable, open_checkpoint
from trainers.run.folder import CHECKPOINTS, REFERENCE
from trainers.run.state import OptimizerState


class RunCheckpoints:
    """Saves and finds the checkpoints of a run; all processes make the same calls.

    Args:
        context: The run.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._store = CheckpointStore(context.folder.checkpoints, keep_last=context.config.run.keep_checkpoints)

    def latest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, the same one in all processes; None when none was ever written.

        Raises:
            DataError: There are checkpoints, none of them whole: starting over would overwrite the run.
        """
        found, steps = self._same(self._store.latest), self._context.ranks.from_main(self._store.steps())
        if found is None and steps:
            raise DataError(
                f"none of the {len(steps)} checkpoints in {self._store.root} is whole, so the run cannot go on; "
                "restore one, or start a new run in another folder"
            )
        return found

    def save(self, step: int, parts: RunParts, score: float | None = None) -> None:
        """Write a checkpoint of a run after so many iterations; `score` decides which one is the best."""
        updater = parts.updater
        model: Savable = parts.policy
        optimizer: torch.optim.Optimizer | OptimizerState = updater.optimizer
        if self._context.ranks.size > 1:
            from trainers.policy.sharding import Snapshot

            snapshot = Snapshot.take(parts.policy, updater.optimizer, self._context.ranks)
            if snapshot is None:
                return
            model, optimizer = snapshot, snapshot.optimizer
        self._store.save(
            step,
            model=model,
            optimizer=optimizer,
            scheduler=updater.scheduler,
            extra={ENVS: parts.envs.state_dict()},
            score=score,
        )

    def score(self, step: int, success: float) -> None:
        """Give the checkpoint that an iteration began with the success of that iteration, if it has no score."""
        if self._context.ranks.is_main:
            self._store.set_score(step, success)

    def return_to_best(self, policy: Policy, before: float) -> dict[str, Any]:
        """Load the weights of the best checkpoint into the policy.

        Args:
            policy: The policy.
            before: Score of the policy before training, which takes part as step 0.

        Returns:
            What the summary says of it: step, score and path.
        """
        best = self._same(self._store.best)
        if best is not None and best.score is not None and best.score >= before:
            best.restore(model=policy)
            return {"step": best.step, "score": best.score, "path": f"{CHECKPOINTS}/{best.path.name}"}
        policy.load_weights(self._context.folder.reference)
        return {"step": 0, "score": before, "path": REFERENCE}

    def _same(self, choose: Callable[[], Checkpoint | None]) -> Checkpoint | None:
        """Return the checkpoint that the main process chooses."""
        ranks = self._context.ranks
        if ranks.size == 1:
            return choose()
        chosen = choose() if ranks.is_main else None
        path: Path | None = ranks.from_main(None if chosen is None else chosen.path)
        return None if path is None else open_checkpoint(path)

"""The learning rate of an optimiser over a run."""

from __future__ import annotations

from typing import Any

import torch

from trainers.settings.schedule import Schedule


class LearningRate:
    """Sets the rate of an optimiser: a warm-up over optimiser steps times a schedule over iterations.

    The number of optimiser steps of an iteration depends on what was sampled, so the schedule is a function of the
    iteration.

    Args:
        optimizer: Optimiser whose rate is set.
        peak: Rate after the warm-up.
        warmup_steps: Optimiser steps over which the rate rises linearly.
        schedule: How it goes on over the iterations.
        iterations: Iterations of the run.

    Attributes:
        steps: Optimiser steps counted so far.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        peak: float,
        warmup_steps: int = 0,
        schedule: Schedule = Schedule.CONSTANT,
        iterations: int = 1,
    ) -> None:
        self._optimizer = optimizer
        self._peak, self._warmup, self._schedule, self._iterations = peak, warmup_steps, schedule, iterations
        self.steps = 0
        self._factor = 1.0
        self._set()

    @property
    def rate(self) -> float:
        """The rate of the next optimiser step."""
        return self._peak * self._factor * min(1.0, (self.steps + 1) / (self._warmup + 1))

    def start(self, iteration: int) -> None:
        """Go to an iteration, counted from 0."""
        self._factor = self._schedule.factor(iteration / max(1, self._iterations))
        self._set()

    def step(self) -> None:
        """Count one optimiser step."""
        self.steps += 1
        self._set()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds; the iteration is the checkpoint's own."""
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint; `start` gives the iteration."""
        self.steps = int(state_dict["steps"])
        self._set()

    def _set(self) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.rate

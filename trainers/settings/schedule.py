"""How a learning rate goes on after its warm-up."""

from __future__ import annotations

import math
from enum import StrEnum


class Schedule(StrEnum):
    """How the learning rate goes on after the warm-up."""

    COSINE = "cosine"
    """Half a cosine down to 0."""
    LINEAR = "linear"
    """A straight line down to 0."""
    CONSTANT = "constant"
    """Stays."""

    def factor(self, done: float) -> float:
        """Return the share of the peak rate left when `done`, in [0, 1], of the iterations is over."""
        match self:
            case Schedule.COSINE:
                return 0.5 * (1.0 + math.cos(math.pi * done))
            case Schedule.LINEAR:
                return 1.0 - done
            case Schedule.CONSTANT:
                return 1.0

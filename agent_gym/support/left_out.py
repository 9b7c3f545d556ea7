"""What was left out of data when they were opened, and why: one bad task must not cost the others."""

from __future__ import annotations

import warnings
from typing import Final

from agent_gym.support.errors import AgentGymWarning, DataError

MOST_BAD: Final = 0.9
"""Share of bad tasks above which data are taken for data of another kind."""
_LISTED: Final = 5
_LONGEST: Final = 300


class LeftOutWarning(AgentGymWarning):
    """Tasks of the data were left out; the message lists the first of them with their reasons."""


class LeftOut:
    """Counts what is left out, and says so once.

    Args:
        what: What is opened, in the plural: "questions".
        most: Share of bad ones in (0, 1] above which that is an error.

    Attributes:
        count: How many were left out.
        listed: The first of them, each with its place and reason.
        refused: The error of the first file that cannot be read at all, for when nothing else is left.
    """

    def __init__(self, what: str, most: float = MOST_BAD) -> None:
        self.what, self.most = what, most
        self.count = 0
        self.listed: list[str] = []
        self.refused: DataError | None = None

    def add(self, place: str, reason: object) -> None:
        """Note one that is left out."""
        self.count += 1
        if len(self.listed) < _LISTED:
            said = " ".join(str(reason).split())
            self.listed.append(f"{place}: {said if len(said) <= _LONGEST else said[: _LONGEST - 3] + '...'}")

    def refuse(self, place: str, error: DataError) -> None:
        """Note a file that is left out as a whole."""
        self.refused = self.refused or error
        self.add(place, str(error).removeprefix(place).lstrip(" ,:"))

    def take(self, other: LeftOut) -> None:
        """Take over what another one noted."""
        self.count += other.count
        self.refused = self.refused or other.refused
        self.listed = [*self.listed, *other.listed][:_LISTED]

    def settle(self, kept: int) -> None:
        """Warn of what was left out.

        Args:
            kept: How many are left.

        Raises:
            DataError: None is left, or a larger share was bad than is accepted.
        """
        if not self.count:
            return
        more = self.count - len(self.listed)
        listed = "; ".join(self.listed) + (f"; and {more:,} more" if more else "")
        said = f"{self.count:,} of {self.count + kept:,} {self.what} cannot be played: {listed}"
        if self.refused is not None and self.count == 1 and not kept:
            raise self.refused
        if not kept or self.count > self.most * (self.count + kept):
            raise DataError(f"{said}. Too few are left: mend the data, or name others")
        warnings.warn(f"{said}. They are left out", LeftOutWarning, stacklevel=2)

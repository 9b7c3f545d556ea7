"""Exceptions and warnings of the package.

Messages name the expected value, the actual value and what to do, because they are read by people at a
terminal and by language models alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class AgentGymError(Exception):
    """Base class: an error that the command line prints without a traceback."""


class ConfigError(AgentGymError, ValueError):
    """An option or a combination of options that cannot work."""


class DataError(AgentGymError, ValueError):
    """A data file that is missing, malformed or of another kind than expected."""


class UnknownTaskError(AgentGymError, LookupError):
    """A task id that the current task set does not hold."""


class InvalidActionError(AgentGymError, ValueError):
    """An action that is not accepted now, raised under `invalid_action="raise"` only."""


class ReplayMismatchError(AgentGymError):
    """A recorded episode that does not replay to the same rewards or observations."""


class WorkerError(AgentGymError, RuntimeError):
    """An environment worker that failed more often than the batch runner tolerates."""


class AgentGymWarning(UserWarning):
    """Base class of the package's warnings."""


def suggest(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """Return a ", did you mean ...?" clause for a mistyped name, or "" when nothing is near."""
    spelled: dict[str, str] = {}
    for word in known:
        spelled.setdefault(word.casefold(), word)
    near = [spelled[word] for word in get_close_matches(name.casefold(), spelled, n=most, cutoff=0.6)]
    return f" Did you mean {', '.join(repr(word) for word in near)}?" if near else ""

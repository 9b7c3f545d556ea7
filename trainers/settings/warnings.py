"""The named warnings of a run, as settings name them; `trainers.run.detector` says when each is given."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from agent_gym.support.errors import ConfigError, suggest

COLLAPSE = "collapse"
"""Stands for the warnings that say that a run is lost; see `COLLAPSES`."""


class WarningName(StrEnum):
    """What a warning is about."""

    RATIO_COLLAPSE = "ratio_collapse"
    """Replies of negative advantage are pushed far below ratio 1 while replies lose their format."""
    KL_BLOW_UP = "kl_blow_up"
    """The policy has left its reference, or leaves it many times faster than before."""
    GRADIENT_EXPLOSION = "gradient_explosion"
    """The gradient norm is many times what it was, or not finite."""
    ENTROPY_COLLAPSE = "entropy_collapse"
    """The policy hardly varies its replies any more."""
    LENGTH_BLOW_UP = "length_blow_up"
    """Replies have grown and run into the token limit."""
    SUCCESS_COLLAPSE = "success_collapse"
    """Training success has lost most of its best level."""
    NO_SIGNAL = "no_signal"
    """In nearly all groups every episode earns the same, so there is nothing to learn from."""
    SAMPLER_MISMATCH = "sampler_mismatch"
    """Sampler and trainer disagree about the probability of the sampled tokens."""


COLLAPSES = frozenset({WarningName.RATIO_COLLAPSE, WarningName.SUCCESS_COLLAPSE})
"""The warnings that `collapse` stands for."""


def check_names(names: Iterable[str]) -> frozenset[WarningName]:
    """Return the warnings that names stand for; `collapse` stands for several.

    Raises:
        ConfigError: A name is unknown.
    """
    chosen: set[WarningName] = set()
    known = [COLLAPSE, *(name.value for name in WarningName)]
    for name in names:
        if name not in known:
            raise ConfigError(f"no warning {name!r}.{suggest(name, known)} Warnings: {', '.join(known)}")
        chosen |= COLLAPSES if name == COLLAPSE else {WarningName(name)}
    return frozenset(chosen)

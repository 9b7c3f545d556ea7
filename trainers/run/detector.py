"""Named warnings from the metrics of a run: a pure function of the history, nothing is trained or stored here.

What a collapse looks like is taken from ARLArena (arXiv 2602.21534): replies of negative advantage whose ratio
falls far below 1, then growing gradients and KL and a falling share of valid replies, at last no success. The
thresholds are ours, set on healthy and collapsing runs of small policies (`docs/metrics.md` lists them).

Every rule looks at the last row and at a few rows before it, so a run that is resumed warns of what an unbroken one
would have warned of. Rules whose metrics are missing are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from trainers.settings.warnings import WarningName

Row = Mapping[str, Any]
"""Metrics of one iteration; None and missing values count as unknown."""


RECENT = 10
"""Iterations before the last one that it is compared with."""

MEMORY = 200
"""Iterations whose best success is remembered."""


ADVICE: dict[WarningName, str] = {
    WarningName.RATIO_COLLAPSE: (
        "Fewer passes, a lower learning rate, a hard clip, or algorithm.sequence_mask_delta=0.223."
    ),
    WarningName.KL_BLOW_UP: "A lower learning rate, fewer passes or a larger algorithm.kl_coef.",
    WarningName.GRADIENT_EXPLOSION: (
        "A lower optim.grad_clip or learning rate; look at the ratios of the same iteration."
    ),
    WarningName.ENTROPY_COLLAPSE: (
        "A small algorithm.entropy_coef, a lower learning rate, or harder tasks if all are solved."
    ),
    WarningName.LENGTH_BLOW_UP: (
        "A larger rollout.max_reply_tokens if the replies make sense, a lower learning rate if not."
    ),
    WarningName.SUCCESS_COLLAPSE: "Go back to the best checkpoint, with a lower learning rate or fewer passes.",
    WarningName.NO_SIGNAL: (
        "Easier tasks if all episodes fail, harder ones if all succeed, or algorithm.group_filter=dynamic."
    ),
    WarningName.SAMPLER_MISMATCH: (
        "Equal dtypes and temperatures of sampler and trainer; weights synced after every update."
    ),
}
"""What usually helps."""


@dataclass(frozen=True)
class RunWarning:
    """A condition that holds after an iteration.

    Attributes:
        name: Which condition.
        iteration: The iteration.
        sentence: What was seen, with numbers.
        values: The numbers.
    """

    name: WarningName
    iteration: int
    sentence: str
    values: dict[str, float] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Return the warning as JSON data."""
        return {
            "iteration": self.iteration,
            "name": self.name.value,
            "sentence": self.sentence,
            "advice": ADVICE[self.name],
            "values": self.values,
        }


Finding = tuple[str, dict[str, float]]
Rule = Callable[[Sequence[Row]], Finding | None]


def detect(history: Sequence[Row]) -> list[RunWarning]:
    """Return the conditions that hold after the last iteration of a history.

    Args:
        history: Rows of metrics in order, as `trainers.run.tracking.read_metrics` returns them.
    """
    if not history:
        return []
    iteration = int(history[-1].get("iteration", len(history) - 1))
    found = []
    for name, rule in RULES.items():
        finding = rule(history)
        if finding is not None:
            found.append(RunWarning(name, iteration, *finding))
    return found


def timeline(history: Sequence[Row]) -> list[RunWarning]:
    """Return every onset in a history: conditions that hold after an iteration and did not after the one before."""
    found = []
    before: set[WarningName] = set()
    for end in range(1, len(history) + 1):
        now = detect(history[:end])
        found += [warning for warning in now if warning.name not in before]
        before = {warning.name for warning in now}
    return found


# Rules ---------------------------------------------------------------------------------------------------


def _values(rows: Iterable[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row.get(name) is not None]


def _last(history: Sequence[Row], name: str) -> float | None:
    value = history[-1].get(name)
    return None if value is None else float(value)


def _ratio_collapse(history: Sequence[Row]) -> Finding | None:
    """Low negative rows reached 10 % within three iterations and 3 times what they were; valid replies fell by 0.1.

    Format is that of replies sampled after the update that shows in the ratios, so it may fall one iteration later.
    """
    name = "ratio/negative_rows_low"
    seen = _values(history[-3:], name)
    if not seen:
        return None
    earlier = _values(history[-3 - RECENT : -3], name)
    low, before = max(seen), fmean(earlier) if earlier else 0.0
    if low < max(0.1, 3 * before):
        return None
    for key, what in (("replies/valid_format", "valid format"), ("replies/valid_action", "valid actions")):
        now, best = _last(history, key), max(_values(history[-1 - RECENT : -1], key), default=None)
        if now is not None and best is not None and now <= best - 0.1:
            sentence = (
                f"Turn rows with negative advantage and a ratio below 0.8 reached {low:.0%} of all rows (before: "
                f"{before:.0%}) while {what} fell from {best:.0%} to {now:.0%}."
            )
            return sentence, {"low": low, "before": before, "valid_before": best, "valid": now}
    return None


def _kl_blow_up(history: Sequence[Row]) -> Finding | None:
    """KL of 1 nat a token, or of 0.5 and 5 times the median before; the drift stands in without a reference."""
    for name, what in (("policy/kl_reference", "KL to the reference"), ("policy/drift", "Drift from the sampler")):
        now = _last(history, name)
        if now is None:
            continue
        earlier = _values(history[-1 - RECENT : -1], name)
        before = median(earlier) if len(earlier) >= 3 else None
        if now >= 1.0 or (before is not None and now >= 0.5 and now >= 5 * max(before, 0.0)):
            told = "" if before is None else f"; the median of the iterations before is {before:.3g}"
            values = {"kl": now} | ({} if before is None else {"before": before})
            return f"{what} is {now:.3g} nats a token{told}.", values
        return None
    return None


def _gradient_explosion(history: Sequence[Row]) -> Finding | None:
    """Mean norm 8 times the median before, or steps left out because the gradient was not finite."""
    skipped = _last(history, "optim/skipped_steps") or 0.0
    if skipped:
        return f"{skipped:.0f} optimiser steps were left out: the gradient was not finite.", {"skipped": skipped}
    now = _last(history, "optim/grad_norm")
    earlier = _values(history[-1 - RECENT : -1], "optim/grad_norm")
    if now is None or len(earlier) < 3 or now < 8 * median(earlier) or now < 1e-6:
        return None
    before = median(earlier)
    sentence = f"The gradient norm is {now:.3g}; the median of the iterations before is {before:.3g}."
    return sentence, {"grad_norm": now, "before": before}


def _entropy_collapse(history: Sequence[Row]) -> Finding | None:
    """Entropy over three iterations below 10 % of the first three, from the sixth iteration on."""
    first, last = _values(history[:3], "policy/entropy"), _values(history[-3:], "policy/entropy")
    if len(history) < 6 or not first or not last:
        return None
    start, now = fmean(first), fmean(last)
    if now >= 0.1 * start:
        return None
    return f"Entropy fell from {start:.3g} to {now:.3g} nats a token.", {"entropy": now, "start": start}


def _length_blow_up(history: Sequence[Row]) -> Finding | None:
    """A fifth of the replies is cut and the share rose by 0.2, or replies doubled and a tenth is cut."""
    length, cut = _last(history, "replies/length"), _last(history, "replies/cut_share")
    lengths, cuts = _values(history[:3], "replies/length"), _values(history[:3], "replies/cut_share")
    if length is None or cut is None or len(history) < 2:
        return None
    start, cut_start = min(lengths), min(cuts)
    if not (cut >= cut_start + 0.2 or (length >= 2 * start and cut >= 0.1)):
        return None
    sentence = f"Replies grew from {start:.1f} to {length:.1f} tokens; {cut:.0%} are cut at the limit."
    return sentence, {"length": length, "start": start, "cut_share": cut, "cut_share_start": cut_start}


def _success_collapse(history: Sequence[Row]) -> Finding | None:
    """Mean success of two iterations below 40 % of the best earlier two, by more than 3 standard errors.

    The first iteration counts alone too: it shows the policy before any update. The best of the last 200 iterations
    counts, so that a run of many thousand is watched at no cost.
    """
    name = "rollout/success"
    stages = {key: value for key, value in history[-1].items() if key.endswith("/stage")}
    rows = [row for row in history[-MEMORY:] if row.get(name) is not None]
    rows = [row for row in rows if all(row.get(key) == value for key, value in stages.items())]  # one difficulty
    if len(rows) < 3:
        return None
    now, n_now = _pooled(rows[-2:])
    if now >= 0.4 * max(float(row[name]) for row in rows[:-2]):
        return None
    windows = [rows[max(0, end - 2) : end] for end in range(1, len(rows) - 1)]
    best, n_best = max(_pooled(window) for window in windows)
    error = (best * (1 - best) / max(n_best, 1) + now * (1 - now) / max(n_now, 1)) ** 0.5
    if now >= 0.4 * best or best - now <= 3 * error:
        return None
    sentence = f"Training success fell from {best:.3f} at its best to {now:.3f} over two iterations."
    return sentence, {"success": now, "best": best}


def _pooled(rows: Sequence[Row]) -> tuple[float, float]:
    """Mean success of some iterations and the episodes behind it."""
    counts = [float(row.get("rollout/episodes") or 1.0) for row in rows]
    total = sum(counts)
    return sum(float(row["rollout/success"]) * n for row, n in zip(rows, counts, strict=True)) / total, total


def _no_signal(history: Sequence[Row]) -> Finding | None:
    """At most 10 % of the sampled groups were mixed in each of the last five iterations."""
    kept = _values(history[-5:], "filter/kept_share")
    if len(kept) < 5 or max(kept) > 0.1:
        return None
    share = 1 - fmean(kept)
    success = _values(history[-5:], "rollout/success")
    solved = fmean(success) if success else 0.0
    sentence = (
        f"In {share:.0%} of the groups of five iterations all episodes earned the same; success is {solved:.2f}."
    )
    return sentence, {"uniform_share": share, "success": solved}


def _sampler_mismatch(history: Sequence[Row]) -> Finding | None:
    """Mean gap of 0.05 nats a token."""
    gap = _last(history, "policy/sampler_gap")
    if gap is None or gap < 0.05:
        return None
    return f"Sampler and trainer differ by {gap:.3g} nats a token on average.", {"gap": gap}


RULES: dict[WarningName, Rule] = {
    WarningName.RATIO_COLLAPSE: _ratio_collapse,
    WarningName.KL_BLOW_UP: _kl_blow_up,
    WarningName.GRADIENT_EXPLOSION: _gradient_explosion,
    WarningName.ENTROPY_COLLAPSE: _entropy_collapse,
    WarningName.LENGTH_BLOW_UP: _length_blow_up,
    WarningName.SUCCESS_COLLAPSE: _success_collapse,
    WarningName.NO_SIGNAL: _no_signal,
    WarningName.SAMPLER_MISMATCH: _sampler_mismatch,
}
"""The rule of each warning; its docstring states the threshold."""

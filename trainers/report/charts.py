"""What is drawn: which metrics share a chart, on which scale, and what each chart shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainers.run.metrics import KL_BUCKETS, QUANTILES


class Scale(StrEnum):
    """Vertical scale of a chart."""

    LINEAR = "linear"
    SHARE = "share"
    """Linear from 0 to at most 1."""
    LOG = "log"
    """Logarithmic; values of 0 and below are left out."""


@dataclass(frozen=True)
class Line:
    """One metric of a chart.

    Attributes:
        metric: Its name.
        label: Its name in the legend.
        points: Draw points where there is a value, for metrics that most iterations lack.
    """

    metric: str
    label: str
    points: bool = False


@dataclass(frozen=True)
class Chart:
    """One chart of curves over iterations."""

    title: str
    lines: tuple[Line, ...]
    scale: Scale = Scale.LINEAR
    about: str = ""


def _chart(title: str, *lines: tuple[str, str], scale: Scale = Scale.LINEAR, about: str = "") -> Chart:
    return Chart(title, tuple(Line(metric, label) for metric, label in lines), scale, about)


OUTCOME = (
    Chart(
        "Success",
        (
            Line("rollout/success", "training"),
            Line("test/success", "test", points=True),
            Line("pool/success", "pool", points=True),
        ),
        Scale.SHARE,
        "Share of solved episodes; training before any filter.",
    ),
    _chart("Return", ("rollout/return", "training"), about="Mean return of the sampled episodes."),
    _chart(
        "Valid replies",
        ("replies/valid_format", "format"),
        ("replies/valid_action", "action"),
        scale=Scale.SHARE,
        about="Replies that follow the grammar, and whose action was accepted.",
    ),
)
UPDATE = (
    _chart(
        "Gradient norm",
        ("optim/grad_norm", "mean"),
        ("optim/grad_norm_max", "largest"),
        scale=Scale.LOG,
        about="Before clipping, over the optimiser steps of an iteration.",
    ),
    _chart("KL to the reference", ("policy/kl_reference", "KL"), scale=Scale.LOG, about="Nats a token, k3."),
    _chart("Drift", ("policy/drift", "drift"), about="Mean of log old - log new, nats a token."),
    _chart("Entropy", ("policy/entropy", "entropy"), about="Nats a token."),
    _chart("Policy loss", ("loss/policy", "loss"), about="Near 0 at ratio 1 whatever the policy."),
    _chart("Learning rate", ("optim/learning_rate", "rate")),
    _chart("Sampler gap", ("policy/sampler_gap", "mean"), ("policy/sampler_gap_max", "largest"), scale=Scale.LOG,
           about="Log-probability by the sampler against the trainer's, nats."),
)  # fmt: skip
REPLIES = (
    _chart("Reply length", ("replies/length", "tokens"), about="Sampled tokens per reply."),
    _chart("Cut replies", ("replies/cut_share", "cut"), scale=Scale.SHARE, about="Replies cut at the token limit."),
    _chart("Repeated actions", ("replies/repeated_action", "repeated"), scale=Scale.SHARE,
           about="Turns that repeat an action tried earlier from that state."),
    _chart("Turns", ("rollout/turns", "turns"), about="Mean turns of an episode."),
)  # fmt: skip
GROUPS = (
    _chart("Uniform groups", ("groups/uniform_share", "in the batch"), scale=Scale.SHARE,
           about="Groups whose returns are all equal: no signal."),
    _chart("Kept groups", ("filter/kept_share", "kept"), scale=Scale.SHARE,
           about="Sampled groups whose episodes differ."),
    _chart("Anchor groups", ("groups/anchor_singleton_share", "alone"), scale=Scale.SHARE,
           about="Turn rows that are alone in their state."),
    _chart("Anchor group size", ("groups/anchor_mean_size", "rows"), about="Turn rows per state."),
    _chart("Advantage", ("advantage/max", "largest"), ("advantage/mean", "mean"), ("advantage/min", "smallest")),
    _chart("Stage", ("curriculum/stage", "stage"), about="Stage of the curriculum."),
)  # fmt: skip
BAND = (
    _chart("Tokens outside the band", ("clip/tokens_above", "A > 0, above"), ("clip/tokens_below", "A < 0, below"),
           scale=Scale.SHARE, about="Share of all sampled tokens."),
    _chart("Rows outside the band", ("clip/rows_above", "A > 0, above"), ("clip/rows_below", "A < 0, below"),
           scale=Scale.SHARE, about="Share of all turn rows."),
    _chart("Rows without gradient", ("clip/grad_zero_rows_positive", "A > 0"),
           ("clip/grad_zero_rows_negative", "A < 0"), scale=Scale.SHARE, about="Share of all turn rows."),
    _chart("Low negative rows", ("ratio/negative_rows_low", "A < 0, ratio below 0.8"),
           ("clip/sequence_masked_rows", "masked"), scale=Scale.SHARE, about="Whatever the band of the algorithm."),
)  # fmt: skip
SECTIONS: tuple[tuple[str, str, tuple[Chart, ...]], ...] = (
    ("outcome", "Outcome", OUTCOME),
    ("update", "Update", UPDATE),
    ("band", "Shares outside the band", BAND),
    ("replies", "Replies", REPLIES),
    ("groups", "Groups", GROUPS),
)
"""Id, heading and charts of every section of curves."""

PREFIXES: tuple[tuple[str, str, str], ...] = (
    ("stapo/", "stapo", "STAPO"),
    ("env/", "environments", "Environments"),
)
"""Metrics that are drawn one a chart where a run has them: prefix, id and heading of the section."""

RATIO_SIGNS: tuple[tuple[str, str], ...] = (("positive", "A > 0"), ("negative", "A < 0"))
RATIO_METRICS: tuple[str, ...] = tuple(f"ratio/{sign}_p{q:02d}" for sign, _ in RATIO_SIGNS for q in QUANTILES)
BUCKET_LABELS: dict[str, str] = {
    f"kl_share/{name}": text.replace("ratio at or above 1", "ratio ≥ 1")
    .replace("ratio below 1", "ratio < 1")
    .replace("entropy above the median", "high entropy")
    .replace("entropy at or below the median", "low entropy")
    for name, text in KL_BUCKETS.items()
}
"""Metric of each bucket of the KL and its name in the legend."""


def drawn_metrics() -> set[str]:
    """Return every metric that a page may draw, without those of `PREFIXES`."""
    lines = {line.metric for _, _, charts in SECTIONS for chart in charts for line in chart.lines}
    return lines | set(RATIO_METRICS) | set(BUCKET_LABELS)

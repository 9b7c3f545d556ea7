"""Metrics of one iteration: what has to be seen to tell a collapse from progress (ARLArena, arXiv 2602.21534).

An accumulator is fed by micro-batches and tables while the iteration runs; `summary` turns it into numbers
named and explained in `METRICS`. A metric whose input was never fed is left out, rather than reported as 0.

Tokens are kept as float32 columns on the CPU (32 bytes a token), since quantiles and medians need them all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agent_gym.support.errors import DataError
from trainers.run.metrics import KL_BUCKETS, LOW_RATIO, METRICS, QUANTILES
from trainers.settings.algorithm import KLKind
from trainers.update.losses import LossOutput
from trainers.update.regularisers import token_kl
from trainers.update.token_batch import TokenBatch, turns
from trainers.update.types import TermReport

Column = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ReplyRows:
    """Replies of all sampled episodes, before filtering, as columns of equal length in turn order per episode.

    Raises:
        DataError: When columns differ in length.
    """

    episode: Sequence[Hashable]
    """Episode of each reply; rows of different episodes may interleave."""
    anchor: Sequence[str]
    """State the reply was given in."""
    action: Sequence[str]
    """Parsed action, or the raw reply where none was found."""
    n_tokens: Sequence[int]
    """Sampled tokens."""
    cut: Sequence[bool]
    """Whether the reply ended at the token limit."""
    valid_format: Sequence[bool]
    """Whether it follows the reply grammar."""
    valid_action: Sequence[bool]
    """Whether the environment accepted the action."""

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(set(lengths.values())) > 1:
            raise DataError(f"reply columns must have equal length, got {lengths}.")


def repeated_actions(episode: Sequence[Hashable], anchor: Sequence[str], action: Sequence[str]) -> list[bool]:
    """Mark turns that repeat an action tried earlier from the same state of the same episode.

    The same action from a new state is progress (walking on), so the state is part of the comparison.
    """
    seen: set[tuple[Hashable, str, str]] = set()
    result = []
    for key in zip(episode, anchor, action, strict=True):
        result.append(key in seen)
        seen.add(key)
    return result


@dataclass
class IterationDiagnostics:
    """Accumulates one iteration on one rank. Picklable, so that ranks can be merged."""

    _tokens: list[dict[str, Column]] = field(default_factory=list)
    _turns: list[dict[str, Column]] = field(default_factory=list)
    _gaps: list[Column] = field(default_factory=list)
    _losses: dict[str, float] = field(default_factory=dict)
    _grad_norms: list[float] = field(default_factory=list)
    _replies: dict[str, float] = field(default_factory=dict)
    _given: dict[str, float] = field(default_factory=dict)
    _term: TermReport | None = None

    def add_micro_batch(self, tokens: TokenBatch, output: LossOutput) -> None:
        """Take in one micro-batch and its loss; call it once per micro-batch of every optimiser pass."""
        for name, value in (
            ("loss/total", output.loss),
            ("loss/policy", output.policy),
            ("loss/kl", output.kl),
            ("loss/entropy", output.entropy),
        ):
            self._losses[name] = self._losses.get(name, 0.0) + value.detach().item()
        with torch.no_grad():
            self._tokens.append(_token_columns(tokens, output))
            self._turns.append(_turn_columns(tokens, output))

    def add_sampler_gap(self, logp_sampler: Tensor, logp_trainer: Tensor, mask: Tensor) -> None:
        """Compare the log-probabilities that the sampler reported with the trainer's, before the first update.

        Args:
            logp_sampler: At the sampling temperature, [B, T].
            logp_trainer: The trainer's `logp_old`, [B, T].
            mask: Non-zero on sampled tokens, [B, T].
        """
        on = mask != 0
        self._gaps.append(_column((logp_sampler[on].double() - logp_trainer[on].double()).abs()))

    def add_term(self, report: TermReport) -> None:
        """Take in what an extra term did in one optimiser step; its loss is part of the total."""
        self._add_term(report)
        _check_names([f"loss/{report.name}", *report.stats()])
        for name in ("loss/total", f"loss/{report.name}"):
            self._losses[name] = self._losses.get(name, 0.0) + report.loss

    def _add_term(self, report: TermReport | None) -> None:
        if report is not None:
            self._term = report if self._term is None else self._term + report

    def add_optimiser_step(self, grad_norm: float) -> None:
        """Count one optimiser step with its gradient norm before clipping."""
        self._grad_norms.append(float(grad_norm))

    def add_replies(self, rows: ReplyRows) -> None:
        """Take in sampled replies, those of filtered groups included. Episodes must not be split over calls."""
        sums = {
            "count": float(len(rows.n_tokens)),
            "replies/length": float(sum(rows.n_tokens)),
            "replies/cut_share": float(sum(rows.cut)),
            "replies/valid_format": float(sum(rows.valid_format)),
            "replies/valid_action": float(sum(rows.valid_action)),
            "replies/repeated_action": float(sum(repeated_actions(rows.episode, rows.anchor, rows.action))),
        }
        for name, value in sums.items():
            self._replies[name] = self._replies.get(name, 0.0) + value

    def add_stats(self, stats: dict[str, float]) -> None:
        """Take over ready metrics: those of `Advantages.stats` and `FilterPlan.stats`.

        Raises:
            DataError: When a name is not in `METRICS`.
        """
        _check_names(stats)
        self._given.update(stats)

    def merge(self, others: Iterable[IterationDiagnostics]) -> None:
        """Take in what other ranks accumulated.

        Losses of ranks add up as those of micro-batches do; optimiser steps and ready metrics stay this rank's.
        """
        for other in others:
            self._tokens += other._tokens
            self._turns += other._turns
            self._gaps += other._gaps
            self._add_term(other._term)
            for mine, theirs in ((self._losses, other._losses), (self._replies, other._replies)):
                for name, value in theirs.items():
                    mine[name] = mine.get(name, 0.0) + value

    def summary(self) -> dict[str, float]:
        """Return the metrics of everything fed so far, in the order of `METRICS`."""
        found = dict(self._given)
        steps = len(self._grad_norms)
        if steps:
            found["optim/steps"] = float(steps)
            found["optim/grad_norm"] = float(np.mean(self._grad_norms))
            found["optim/grad_norm_max"] = float(np.max(self._grad_norms))
            found |= {name: value / steps for name, value in self._losses.items()}
        if self._replies.get("count"):
            count = self._replies["count"]
            found |= {name: value / count for name, value in self._replies.items() if name != "count"}
        found |= {} if self._term is None else self._term.stats()
        gaps = np.concatenate(self._gaps) if self._gaps else np.zeros(0, dtype=np.float32)
        if len(gaps):
            found["policy/sampler_gap"] = float(gaps.mean(dtype=np.float64))
            found["policy/sampler_gap_max"] = float(gaps.max())
        columns = _join(self._tokens)
        if columns and len(columns["ratio"]):
            found |= _token_metrics(columns)
            found |= _turn_metrics(_join(self._turns))
        return {name: found[name] for name in METRICS if name in found}


def _check_names(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise DataError(f"metrics {unknown} have no explanation; add them to METRICS.")


def _token_columns(tokens: TokenBatch, output: LossOutput) -> dict[str, Column]:
    on = tokens.sampled
    columns = {
        "ratio": output.ratio,
        "log_ratio": output.log_ratio,
        "sign": tokens.clean(tokens.advantage).sign(),
        "above": output.above,
        "below": output.below,
        "kl": output.kl_reference,
        "entropy": tokens.entropy,
    }
    # Without a reference the KL buckets fall back to the policy that sampled the batch.
    # Tokens come from that policy, for which exp(l) - 1 - l is the unbiased estimate of KL(old || new).
    columns["moved"] = token_kl(output.log_ratio, KLKind.K3)
    return {name: _column(value[on]) for name, value in columns.items() if value is not None}


def _turn_columns(tokens: TokenBatch, output: LossOutput) -> dict[str, Column]:
    groups = turns(tokens)
    # The band is that of the ratio in use, so a turn is placed by the mean of its tokens' log ratios.
    log_ratio = torch.where(tokens.sampled, output.ratio, 1.0).clamp_min(1e-30).log()
    ratio = groups.mean(log_ratio).exp()
    low, high = output.band
    return {
        "advantage": _column(groups.mean(tokens.clean(tokens.advantage))),
        "above": _column(ratio > high),
        "below": _column(ratio < low),
        "low": _column(-groups.mean(output.log_ratio) > LOW_RATIO),
        "off": _column(groups.mean(tokens.clean(output.gradient_off)) == 1),
        "masked": _column(groups.mean(tokens.clean(output.sequence_masked)) == 1),
    }


def _token_metrics(columns: dict[str, Column]) -> dict[str, float]:
    positive, negative = columns["sign"] > 0, columns["sign"] < 0
    found = {
        "policy/drift": -_mean(columns["log_ratio"]),
        "clip/tokens_above": _mean(positive & (columns["above"] > 0)),
        "clip/tokens_below": _mean(negative & (columns["below"] > 0)),
    }
    for side, chosen in (("positive", positive), ("negative", negative)):
        if chosen.any():
            values = np.percentile(columns["ratio"][chosen].astype(np.float64), QUANTILES)
            found |= {f"ratio/{side}_p{q:02d}": float(v) for q, v in zip(QUANTILES, values, strict=True)}
    if "kl" in columns:
        found["policy/kl_reference"] = _mean(columns["kl"])
    if "entropy" in columns:
        found["policy/entropy"] = _mean(columns["entropy"])
        found |= _kl_shares(columns)
    return found


def _kl_shares(columns: dict[str, Column]) -> dict[str, float]:
    kl = columns.get("kl", columns["moved"]).astype(np.float64)
    signed = columns["sign"] != 0
    bucket = (
        4 * (columns["sign"] < 0)
        + 2 * (columns["ratio"] < 1)
        + 1 * (columns["entropy"] <= np.median(columns["entropy"]))
    )
    sums = np.bincount(bucket[signed], weights=kl[signed], minlength=len(KL_BUCKETS))
    total = float(sums.sum())
    if total <= 0:
        return {}
    return {f"kl_share/{name}": float(value) / total for name, value in zip(KL_BUCKETS, sums, strict=True)}


def _turn_metrics(columns: dict[str, Column]) -> dict[str, float]:
    positive, negative = columns["advantage"] > 0, columns["advantage"] < 0
    off = columns["off"] > 0
    return {
        "clip/rows_above": _mean(positive & (columns["above"] > 0)),
        "clip/rows_below": _mean(negative & (columns["below"] > 0)),
        "ratio/negative_rows_low": _mean(negative & (columns["low"] > 0)),
        "clip/grad_zero_rows_positive": _mean(positive & off),
        "clip/grad_zero_rows_negative": _mean(negative & off),
        "clip/sequence_masked_rows": _mean(columns["masked"]),
    }


def _join(parts: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """Concatenate the columns that every part has."""
    if not parts:
        return {}
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in shared}


def _column(values: Tensor) -> Column:
    return values.detach().to("cpu", torch.float32).numpy()


def _mean(values: Column | NDArray[np.bool_]) -> float:
    return float(values.mean(dtype=np.float64))

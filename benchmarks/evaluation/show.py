"""Results on the terminal."""

from __future__ import annotations

from rich.console import RenderableType

from agent_gym.support.intervals import Interval
from benchmarks.evaluation.results import EvaluationResult, Summary
from benchmarks.evaluation.tables import fitted


def result_table(result: EvaluationResult, width: int) -> RenderableType:
    """Return the table of one evaluation, for lines of so many characters."""
    summary, header = result.summary, result.header
    title = f"{header['agent']['spec']} on {header['env_id']}, {header['split']}"
    # Of no episode there is no rate.
    lines = _rates(summary) if summary.n_ok else [("success", "unknown", "", "no episode was played to its end")]
    played = f"{summary.n_ok} of {summary.n_planned}"
    lines.append(("episodes played", played, "", f"{summary.n_error} errors, {summary.n_missing} missing"))
    for name, count in summary.errors.items():
        lines.append((f"  error {name.replace('_', ' ')}", str(count), "", ""))
    for name, count in summary.stop_reasons.items():
        lines.append((f"  ended by {name.replace('_', ' ')}", str(count), "", ""))
    spent = result.details.get("spent")
    if spent:
        lines.append(("requests", f"{spent['requests']:,}", "", f"{spent['retries']:,} of them again"))
        tokens = f"{spent['prompt_tokens']:,} read, {spent['reply_tokens']:,} written"
        unknown = spent["replies_without_usage"]
        lines.append(("tokens paid for", tokens, "", f"{unknown:,} replies not counted" if unknown else ""))
        if spent["cost"] is not None:
            lines.append(("cost", f"{spent['cost']:,.4f}", "", ""))
    tasks = header["tasks"]
    facts = f"{tasks['count']} tasks, list {tasks['digest'][:12]}, seeds {header['seeds']}"
    heads = ("", "value", "95 % interval", "n")
    return fitted(heads, lines, width, left=range(4), free=(0, 3), title=title, caption=facts)


def _rates(summary: Summary) -> list[tuple[str, ...]]:
    """Return the lines of what is a mean over the episodes played."""
    lines: list[tuple[str, ...]] = []
    lines.append(("success", *_cells(summary.success, ".3f")))
    if len(summary.by_type) > 1:
        for kind, found in summary.by_type.items():
            lines.append((f"  {kind}", *_cells(found, ".3f")))
    lines.append(("score", *_cells(summary.score, ".3f")))
    lines.append(("return", *_cells(summary.reward, ".2f")))
    if len(summary.pass_at) > 1:
        for k, value in summary.pass_at.items():
            rates = f"{value:.3f} / {summary.pass_hat[k]:.3f}"
            lines.append((f"pass@{k} / pass^{k}", rates, "", f"{summary.pass_tasks[k]} tasks"))
    lines.append(("turns", f"{summary.turns:.1f}", "", ""))
    lines.append(("invalid format", f"{summary.invalid_format:.1%}", "", "of turns"))
    lines.append(("invalid action", f"{summary.invalid_action:.1%}", "", "of turns"))
    if summary.reply_tokens is not None:
        lines.append(("tokens sampled", f"{summary.reply_tokens:.0f}", "", "per episode"))
        lines.append(("tokens read", f"{summary.prompt_tokens or 0:.0f}", "", "per episode"))
    lines.append(("seconds", f"{summary.seconds:.3f}", "", "per episode"))
    lines.append(("", _seconds(summary.turn_seconds), "", "per turn"))
    lines.append(("", _seconds(summary.slowest_turn_p95), "", "slowest turn, 95th percentile of episodes"))
    return lines


def _cells(found: Interval, form: str) -> tuple[str, str, str]:
    return f"{found.value:{form}}", f"{found.low:{form}} to {found.high:{form}}", f"{found.n} tasks"


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

"""Results on the terminal."""

from __future__ import annotations

from rich.table import Table

from benchmarks.results import EvaluationResult
from benchmarks.statistics import Interval


def result_table(result: EvaluationResult) -> Table:
    """Return the table of one evaluation."""
    summary, header = result.summary, result.header
    title = f"{header['agent']['spec']} on {header['env_id']}, {header['split']}"
    table = Table("", "value", "95 % interval", "n", title=title, title_justify="left", box=None, pad_edge=False)
    table.add_row("success", *_cells(summary.success, ".3f"))
    if len(summary.by_type) > 1:
        for kind, found in summary.by_type.items():
            table.add_row(f"  {kind}", *_cells(found, ".3f"))
    table.add_row("score", *_cells(summary.score, ".3f"))
    table.add_row("return", *_cells(summary.reward, ".2f"))
    if len(summary.pass_at) > 1:
        for k, value in summary.pass_at.items():
            table.add_row(f"pass@{k} / pass^{k}", f"{value:.3f} / {summary.pass_hat[k]:.3f}", "", "")
    table.add_row("turns", f"{summary.turns:.1f}", "", "")
    table.add_row("invalid format", f"{summary.invalid_format:.1%}", "", "of turns")
    table.add_row("invalid action", f"{summary.invalid_action:.1%}", "", "of turns")
    if summary.reply_tokens is not None:
        table.add_row("tokens sampled", f"{summary.reply_tokens:.0f}", "", "per episode")
        table.add_row("tokens read", f"{summary.prompt_tokens or 0:.0f}", "", "per episode")
    table.add_row("seconds", f"{summary.seconds:.3f}", "", "per episode")
    table.add_row("", _seconds(summary.turn_seconds), "", "per turn")
    table.add_row("", _seconds(summary.slowest_turn_p95), "", "slowest turn, 95th percentile of episodes")
    played = f"{summary.n_ok} of {summary.n_planned}"
    table.add_row("episodes played", played, "", f"{summary.n_error} errors, {summary.n_missing} missing")
    for name, count in summary.errors.items():
        table.add_row(f"  error {name.replace('_', ' ')}", str(count), "", "")
    for name, count in summary.stop_reasons.items():
        table.add_row(f"  ended by {name.replace('_', ' ')}", str(count), "", "")
    spent = result.details.get("spent")
    if spent:
        table.add_row("requests", f"{spent['requests']:,}", "", f"{spent['retries']:,} of them again")
        tokens = f"{spent['prompt_tokens']:,} read, {spent['reply_tokens']:,} written"
        unknown = spent["replies_without_usage"]
        table.add_row("tokens paid for", tokens, "", f"{unknown:,} replies not counted" if unknown else "")
        if spent["cost"] is not None:
            table.add_row("cost", f"{spent['cost']:,.4f}", "", "")
    tasks = header["tasks"]
    table.caption = f"{tasks['count']} tasks, list {tasks['digest'][:12]}, seeds {header['seeds']}"
    table.caption_justify = "left"
    return table


def _cells(found: Interval, form: str) -> tuple[str, str, str]:
    return f"{found.value:{form}}", f"{found.low:{form}} to {found.high:{form}}", f"{found.n} tasks"


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

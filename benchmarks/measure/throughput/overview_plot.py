"""The plot of the throughput overview: steps, memory, and what becomes of them in a crowd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure.plotting import load_pyplot

_OURS, _THEIRS = "#1f6f8b", "#c8a15a"


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """Draw the figures of `measure_all` into an image file.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    pyplot = load_pyplot()
    rows = figures["rows"]
    figure, (speed, crowd, memory) = pyplot.subplots(1, 3, figsize=(15, 4.6), constrained_layout=True)
    places = range(len(rows))
    titles = [row["title"].replace(", ", ",\n").replace(" p", "\np") for row in rows]
    ours = [row.get("wall_steps_per_s", row["steps_per_s"]) for row in rows]
    theirs = [row["original"]["steps_per_s"] if row["original"] else 0.0 for row in rows]
    shown = [speed.bar([p - 0.2 for p in places], ours, 0.4, color=_OURS, label="text environment")]
    shown.append(
        speed.bar([p + 0.2 for p in places], theirs, 0.4, color=_THEIRS, label="original, where installed")
    )
    for bars in shown:
        speed.bar_label(
            bars, [f"{v:,.3g}" if v < 1000 else f"{v / 1000:,.3g}k" for v in bars.datavalues], fontsize=8
        )
    speed.set_yscale("log")
    speed.set_ylim(top=20 * max(ours))
    speed.set_xticks(list(places), titles, fontsize=8)
    speed.set_title("steps per second, one core", fontsize=10)
    speed.legend(fontsize=8, loc="upper right")
    for number, row in enumerate(rows):
        counts = [each["envs"] for each in row["crowds"]]
        crowd.plot(
            counts, [each["steps_per_s"] for each in row["crowds"]], "o-", color=f"C{number}", label=row["title"]
        )
    crowd.set_xscale("log", base=2)
    crowd.set_yscale("log")
    ticks = [each["envs"] for each in rows[0]["crowds"]]
    crowd.set_xticks(ticks, [str(tick) for tick in ticks])
    crowd.set_xlabel("environments in one process")
    crowd.set_title("steps per second of all together", fontsize=10)
    crowd.legend(fontsize=8)
    each = [row["kib_per_env"] or 0.0 for row in rows]
    memory.bar_label(memory.bar(list(places), each, 0.5, color=_OURS), fmt="{:,.0f}", fontsize=8)
    memory.set_xticks(list(places), titles, fontsize=8)
    memory.set_title("KiB of memory for each further environment", fontsize=10)
    for axis in (speed, crowd, memory):
        axis.grid(alpha=0.25)
        axis.set_axisbelow(True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)

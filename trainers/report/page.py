"""Renders the page: one HTML file with its styles, its script and its numbers inside, to be opened anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent_gym.page import embedded, page_environment, page_file
from agent_gym.support.errors import ConfigError
from agent_gym.support.files import write_whole
from agent_gym.support.intervals import Interval
from trainers.report.charts import BUCKET_LABELS, PREFIXES, RATIO_SIGNS, SECTIONS, Chart, Line, Scale
from trainers.report.data import RunData, read_run
from trainers.run.folder import REPORT
from trainers.run.metrics import METRICS, QUANTILES
from trainers.settings.warnings import COLLAPSES

MOST_RUNS = 8  # as many colours tell runs apart
_FOLDER = Path(__file__).parent


def write_report(runs: Sequence[str | Path], output: str | Path | None = None) -> Path:
    """Write the page about one run, or the comparison of several.

    Args:
        runs: Run folders; a run may still be going on.
        output: File to write; `report.html` in the run folder when None, which needs a single run.

    Returns:
        The file.

    Raises:
        ConfigError: No run, more than eight, or several without `output`.
        DataError: A folder is not a run folder.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise ConfigError(f"a report is about 1 to {MOST_RUNS} runs, got {len(runs)}")
    if output is None and len(runs) > 1:
        raise ConfigError("a report about several runs needs an output file")
    names = _names([Path(run) for run in runs])
    page = render([read_run(run, name) for run, name in zip(runs, names, strict=True)])
    target = Path(runs[0]) / REPORT if output is None else Path(output)
    return write_whole(target, page)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise ConfigError(f"the same run folder is given twice: {', '.join(str(path) for path in paths)}")


def render(runs: Sequence[RunData]) -> str:
    """Return the page about runs as HTML."""
    environment = page_environment(_FOLDER, {"interval": _interval, "duration": _duration})
    present = {name for run in runs for name, values in run.series.items() if any(v is not None for v in values)}
    sections = [
        (key, title, [chart for chart in charts if any(line.metric in present for line in chart.lines)])
        for key, title, charts in SECTIONS
    ]
    sections += [
        (key, title, [_own_chart(name, prefix) for name in sorted(present) if name.startswith(prefix)])
        for prefix, key, title in PREFIXES
    ]
    template = environment.get_template("page.html.j2")
    return template.render(
        runs=runs,
        title=runs[0].name if len(runs) == 1 else " · ".join(run.name for run in runs),
        sections=[section for section in sections if section[2]],
        has_ratios=any(name.startswith("ratio/") for name in present),
        has_buckets=any(name in present for name in BUCKET_LABELS),
        ratio_signs=RATIO_SIGNS,
        buckets=list(BUCKET_LABELS.items()),
        quantiles=QUANTILES,
        differences=_differences(runs),
        data=embedded(_chart_data(runs)),
        style=page_file(_FOLDER / "style.css"),
        script=page_file(_FOLDER / "charts.js"),
        collapses={name.value for name in COLLAPSES},
    )


def _own_chart(name: str, prefix: str) -> Chart:
    about = METRICS.get(name, "")
    return Chart(name.removeprefix(prefix).replace("_", " "), (Line(name, name),), Scale.LINEAR, about)


def _chart_data(runs: Sequence[RunData]) -> dict[str, Any]:
    """Return what the script draws."""
    return {
        "runs": [
            {
                "name": run.name,
                "x": run.iterations,
                "y": run.series,
                "onsets": [[row["iteration"], row["name"]] for row in run.warnings],
                "holding": {name: found for name, found in run.holding.items() if found},
                "band": _band(run),
            }
            for run in runs
        ]
    }


def _band(run: RunData) -> list[float]:
    algorithm = run.config.get("algorithm", {})
    return [1 - float(algorithm.get("eps_low", 0)), 1 + float(algorithm.get("eps_high", 0))]


def _differences(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """Return the settings in which runs differ, with each run's value."""
    flat = [_flat(run.config) for run in runs]
    names = list(dict.fromkeys(name for values in flat for name in values))
    missing = "-"
    rows = [(name, [json.dumps(v[name]) if name in v else missing for v in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _interval(found: Interval | None) -> str:
    if found is None or not math.isfinite(found.low):
        return ""
    return f"{found.low:.3f} to {found.high:.3f}".replace("-", "−")


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))

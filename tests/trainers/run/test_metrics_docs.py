"""docs/metrics.md says of every metric what the code says, and runs emit what it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.trainers.runs import metrics, new_run, train
from trainers.run.detector import ADVICE, RULES
from trainers.run.metrics import ENV_METRICS, EVALUATION_METRICS, METRICS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)


def test_the_page_lists_every_metric_with_its_meaning() -> None:
    expected = {
        **METRICS,
        **{f"test/{name}": text for name, text in EVALUATION_METRICS.items()},
        **{f"env/NAME/{name}": text for name, text in ENV_METRICS.items()},
    }
    found = {name: text for name, text in ROW.findall(PAGE.read_text("utf-8")) if "/" in name}
    rows = "\n".join(f"| `{name}` | {text} |" for name, text in expected.items() if found.get(name) != text)
    assert not rows, f"add or correct these rows in docs/metrics.md:\n{rows}"
    assert not set(found) - set(expected), "docs/metrics.md lists metrics that do not exist"


def test_the_page_lists_every_warning_with_its_rule() -> None:
    page = PAGE.read_text("utf-8")
    for name, rule in RULES.items():
        rule_text = " ".join((rule.__doc__ or "").split("\n\n")[0].split())
        assert f"| `{name}` | {rule_text} | {ADVICE[name]} |" in page


def test_a_run_emits_the_metrics_that_the_page_promises(tmp_path: Path) -> None:
    folder = new_run(
        tmp_path / "run",
        "iterations=2",
        "evaluation.every=1",
        "evaluation.episodes=2",
        "optim.passes=2",
        "env.stages=" + '[{"options": {"max_moves": 5}, "iterations": 1}, {"options": {"max_moves": 6}}]',
    )
    train(folder)
    emitted = {name for row in metrics(folder.path) for name in row} - {"iteration"}
    optional = {name for name in METRICS if name.startswith(OPTIONAL)}
    promised = set(METRICS) | {f"test/{name}" for name in EVALUATION_METRICS}
    assert promised - emitted <= optional
    assert emitted <= promised


OPTIONAL = ("stapo/", "loss/stapo", "vllm/")  # metrics of settings that the run above does not use

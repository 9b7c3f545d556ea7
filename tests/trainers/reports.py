"""A run with everything that a report page can show, without having trained it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_gym.core.info import StopReason
from agent_gym.play.episode import Episode, EpisodeWriter, Turn
from tests.trainers.runs import small_config
from trainers.run.detector import detect, timeline
from trainers.run.folder import RunFolder
from trainers.run.metrics import METRICS
from trainers.settings.warnings import WarningName

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"


def write_run(path: Path, *overrides: str, iterations: int = 12, ruined: bool = False) -> Path:
    """Write a run folder; with `ruined` it collapses half-way and the detector ends it."""
    folder = RunFolder.create(path, small_config(*overrides, f"iterations={iterations}"))
    rows: list[dict[str, Any]] = list(_rows(iterations, ruined))
    for number, row in enumerate(rows):
        holding = {warning.name for warning in detect(rows[: number + 1])}
        row |= {f"warning/{name}": float(name in holding) for name in WarningName}
    onsets = timeline(rows)
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (path / "warnings.jsonl").write_text(
        "".join(json.dumps(warning.to_row()) + "\n" for warning in onsets), encoding="utf-8"
    )
    for when, solved in (("before", 5), ("after", 1 if ruined else 9)):
        with EpisodeWriter(folder.episodes / f"test-{when}.jsonl") as writer:
            for number in range(16):
                writer.write(_episode(number, number % 11 < solved))
    outlier = {
        "iteration": 2,
        "task_id": "gen/7",
        "turn": 3,
        "anchor": "a",
        "goal": HOSTILE,
        "observation": "# P _",
    }
    outlier |= {"reply": HOSTILE, "entropy": 1.25, "z": 2.5, "pool": "normalized"}
    outlier |= {"limit": 1.4, "group_size": 9, "success": False, "reward": None}
    (path / "stapo_outliers.jsonl").write_text(json.dumps(outlier) + "\n" + '{"iter', encoding="utf-8")
    results: dict[str, Any] = {
        when: {"test": {"split": "test", "success": 0.5, "n_ok": 16}} for when in ("before", "after")
    }
    if ruined:
        best = {"step": 4, "score": 0.41, "path": "checkpoints/step-00000004"}
        results["stopped"] = {**onsets[-1].to_row(), "best": best}
    folder.update_summary(results)
    return path


def _rows(iterations: int, ruined: bool) -> Iterator[dict[str, Any]]:
    for number in range(iterations):
        bad = ruined and number >= iterations // 2
        row: dict[str, Any] = {"iteration": number, "seconds": {"sampling": 1.0, "update": 2.0}}
        for place, name in enumerate(METRICS):
            if not name.startswith(("warning/", "curriculum/", "stapo/")):
                row[name] = round(0.2 + 0.1 * math.sin(number / 2 + place), 4)
        for side in ("positive", "negative"):
            for quantile, value in zip(("01", "10", "50", "90", "99"), (0.7, 0.9, 1.0, 1.1, 1.4), strict=True):
                row[f"ratio/{side}_p{quantile}"] = value**3 if bad else value
        row |= {name: 0.125 for name in METRICS if name.startswith("kl_share/")}
        row |= {"rollout/success": 0.02 if bad else 0.4, "rollout/episodes": 128.0, "rollout/return": None}
        row |= {"replies/valid_format": 0.5 if bad else 0.97, "ratio/negative_rows_low": 0.3 if bad else 0.01}
        row |= {"policy/kl_reference": 3.0 if bad else 0.05, "optim/skipped_steps": 0.0, "replies/cut_share": 0.0}
        row |= {"policy/sampler_gap": 1e-6, "stapo/outlier_share": 0.03}
        if number % 4 == 3:
            row |= {"test/success": 0.1 if bad else 0.45}
        yield row


def _episode(number: int, success: bool) -> Episode:
    turns = tuple(
        Turn(
            observation="#####\n#P_O#\n#####",
            reply=HOSTILE if turn else "<action>right</action>",
            action=None if turn else "right",
            reward=-0.1,
            valid_format=not turn,
            reason="no action" if turn else "",
            reply_ids=(1, 2, 3),
        )
        for turn in range(2)
    )
    return Episode(
        env_id="agent_gym/Sokoban-v0",
        env_kwargs={},
        seed=number,
        task_id=f"gen/{number}",
        task_type=("6x6-1", "7x7-2")[number % 2],
        goal="Push every box onto a goal.",
        turns=turns,
        final_observation="#####\n#_PO#\n#####",
        success=success,
        score=float(success),
        stop_reason=StopReason.SUCCESS if success else StopReason.MAX_TURNS,
        reward=1.0,
    )

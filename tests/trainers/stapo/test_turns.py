"""STAPO inside the update and the run: it touches outlier turns only, and nothing when it has nothing to do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agent_gym.core.prompts import Segment
from agent_gym.support.errors import DataError
from tests.trainers.runs import metrics, new_run, train
from tests.trainers.update.test_updater import ADVANTAGES, batch_of, level, make, weights
from trainers.policy.token_rows import TokenRow
from trainers.rollout.masked_prompts import PromptSources
from trainers.run.folder import OUTLIERS, RunFolder
from trainers.run.jsonl_log import read_log
from trainers.run.tracking import read_metrics
from trainers.settings.stapo import MaskKind, Side, StapoSettings
from trainers.stapo.log import MAX_PER_ITERATION, OutlierLog, outlier_rows
from trainers.stapo.outliers import Pool, locate
from trainers.stapo.term import SelectiveReport, plan_selective, selective_backward
from trainers.stapo.turns import OutlierTurns
from trainers.update.batch import Batch
from trainers.update.scoring_pass import turn_entropies
from trainers.update.types import ScoredRow, StepReport
from trainers.update.updater import Updater

SOME = StapoSettings(alpha=0.5, beta=0.3, gamma_s=0.2, side=Side.BOTH, iqr_lambda=0.2)
"""Flags some of the eight turns of the small batch, and not all."""


class Shortened(PromptSources):
    """Masks a prompt by leaving its first two tokens out."""

    def __contains__(self, ids: object) -> bool:
        return True

    def masked(self, ids: tuple[int, ...], segments: Iterable[Segment]) -> tuple[int, ...]:
        assert set(segments) == {Segment.GOAL, Segment.HISTORY}
        return ids[2:]


def selection(
    batch: Batch, chosen: StapoSettings = SOME, sources: PromptSources | None = None, temperature: float = 1.0
) -> OutlierTurns:
    return OutlierTurns(batch, chosen, Shortened() if sources is None else sources, temperature=temperature)


def updated(
    chosen: StapoSettings | None, rows: tuple[TokenRow, ...] | None = None, **settings: Any
) -> tuple[Updater, OutlierTurns | None, list[SelectiveReport]]:
    """Take the steps of one update and return what came of it."""
    updater = make(level("token"), **settings)
    batch = batch_of(updater.policy)
    batch = batch if rows is None else replace(batch, rows=rows)
    part = None if chosen is None else selection(batch, chosen, temperature=updater.temperature)
    events = list(updater.update(batch, ADVANTAGES, 5, extra_term=part))
    assert all(event.applied for event in events if isinstance(event, StepReport))
    return updater, part, [event for event in events if isinstance(event, SelectiveReport)]


def flat(updater: Updater) -> torch.Tensor:
    return torch.cat([(0 * p if p.grad is None else p.grad).flatten() for p in updater.policy.parameters()])


def flagged(part: OutlierTurns | None) -> list[int]:
    assert part is not None and part.outliers is not None
    return part.outliers.flagged.nonzero()[0].tolist()


CUTS = {"one step": {}, "minibatches": {"minibatch_rows": 3}, "passes": {"passes": 2, "minibatch_rows": 5}}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    "off",
    [StapoSettings(alpha=0, beta=0, gamma_s=0, side=Side.BOTH, iqr_lambda=0.2), replace(SOME, iqr_lambda=1e9)],
    ids=["zero weights", "no outliers"],
)
def test_without_weights_or_outliers_every_bit_stays(cut: str, off: StapoSettings) -> None:
    plain, _, _ = updated(None, **CUTS[cut])
    found, part, reports = updated(off, **CUTS[cut])
    assert not reports
    assert bool(flagged(part)) is not off.acts
    assert torch.equal(weights(found), weights(plain))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_term_is_the_gradient_over_the_outlier_rows_and_nothing_else(temperature: float) -> None:
    plain, _, _ = updated(None, temperature=temperature)
    found, part, (report,) = updated(SOME, temperature=temperature)
    outliers = flagged(part)
    assert 0 < len(outliers) < len(ADVANTAGES)
    assert report.turns == len(outliers)
    fresh = make(level("token"))
    rows = [row for number, row in enumerate(batch_of(fresh.policy).rows) if number in outliers]
    masked = {number: row.ids[: row.mask.index(True)][2:] for number, row in zip(outliers, rows, strict=True)}
    plan = plan_selective(fresh.policy, rows, masked, SOME, 10_000)
    selective_backward(fresh.policy, rows, plan, masked, SOME, n_outliers=len(rows), temperature=temperature)
    term = flat(fresh)
    assert float(term.norm()) > 1e-3
    assert float((flat(found) - flat(plain) - term).norm()) < 1e-5 * float(term.norm()) + 1e-6
    # A turn that is no outlier has no share in the term, whatever it holds: neither prompt nor reply matters.
    others = [row for number, row in enumerate(batch_of(fresh.policy).rows) if number not in outliers]
    table = batch_of(fresh.policy).table
    kept = part.outliers if part is not None else None
    assert kept is not None
    part_again = selection(Batch((), table, tuple(rows + others)))
    part_again.locate(kept.entropy)
    fresh.policy.model.zero_grad()
    assert part_again.backward(fresh.policy, [ScoredRow(row) for row in others]) is None
    assert not flat(fresh).any()


@pytest.mark.parametrize("cut", CUTS)
def test_outliers_are_those_of_the_policy_that_sampled_however_they_are_found(cut: str) -> None:
    # In one step the first forward shows them; otherwise the scoring pass, before any weight moved.
    updater = make(level("token"))
    batch = batch_of(updater.policy)
    entropy = turn_entropies(updater.score(batch), len(batch.table))
    expected = locate(replace(batch.table, entropy=entropy), SOME)
    _, part, _ = updated(SOME, **CUTS[cut])
    assert part is not None and part.outliers is not None
    np.testing.assert_allclose(part.outliers.entropy, entropy, atol=1e-6)
    assert flagged(part) == expected.flagged.nonzero()[0].tolist()


def test_each_minibatch_divides_by_its_own_outliers() -> None:
    _, part, reports = updated(SOME, minibatch_rows=3)
    assert sum(report.turns for report in reports) == len(flagged(part))
    assert len(reports) > 1
    for report in reports:
        mean = -0.5 * report.reward + 0.3 * report.entropy + 0.2 * report.masked_entropy
        assert report.loss == pytest.approx(mean / report.turns, abs=1e-6)


def test_without_selection_every_turn_takes_part() -> None:
    _, part, (report,) = updated(replace(SOME, selective=False))
    assert flagged(part) == list(range(len(ADVANTAGES)))
    assert report.turns == len(ADVANTAGES)
    assert part is not None and set(part.rewards) == set(range(len(ADVANTAGES)))


def test_terms_that_read_no_masked_prompt_make_none() -> None:
    class Nothing(PromptSources):
        def masked(self, ids: Any, segments: Any) -> Any:
            raise AssertionError("no masked prompt is needed")

    updater = make(level("token"))
    batch = batch_of(updater.policy)
    part = selection(batch, replace(SOME, alpha=0.0, gamma_s=0.0), Nothing())
    reports = [e for e in updater.update(batch, ADVANTAGES, 5, extra_term=part) if isinstance(e, SelectiveReport)]
    assert reports[0].loss == pytest.approx(0.3 * reports[0].entropy / reports[0].turns, abs=1e-6)


def test_an_outlier_whose_prompt_nobody_sampled_is_an_error() -> None:
    updater = make(level("token"))
    batch = batch_of(updater.policy)
    with pytest.raises(DataError, match="outlier turns were not sampled in this iteration"):
        list(updater.update(batch, ADVANTAGES, 5, extra_term=selection(batch, SOME, PromptSources())))


# Whole runs ------------------------------------------------------------------------------------------------

OFF = ("algorithm.stapo.alpha=0", "algorithm.stapo.beta=0", "algorithm.stapo.gamma_s=0")


def without_stapo(folder: RunFolder) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith("stapo/")} for row in metrics(folder.path)]


@pytest.mark.parametrize(
    "rows", ["optim.minibatch_rows=0", pytest.param("optim.minibatch_rows=16", marks=pytest.mark.slow)]
)
def test_a_run_with_zero_weights_is_a_run_of_gigpo_bit_for_bit(rows: str, tmp_path: Path) -> None:
    plain = new_run(tmp_path / "gigpo", "algorithm=gigpo", "iterations=3", rows)
    found = new_run(tmp_path / "stapo", "algorithm=stapo", "iterations=3", rows, *OFF)
    assert train(found)["checksum"] == train(plain)["checksum"]
    assert without_stapo(found) == metrics(plain.path)
    assert any(row["stapo/outlier_share"] > 0 for row in metrics(found.path))
    assert not any("loss/stapo" in row for row in metrics(found.path))


@pytest.fixture(scope="module")
def stapo_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose prompts have a goal and a history, and in which every turn counts as an outlier."""
    folder = new_run(
        tmp_path_factory.mktemp("stapo") / "run",
        "algorithm=stapo",
        "algorithm.stapo.selective=false",
        "iterations=2",
        "env.prompt=prompt",
        "env.history_length=1",
        "rollout.max_context_tokens=2000",
        "rollout.groups=2",
        "evaluation.episodes=1",
    )
    train(folder)
    return folder


def test_a_run_logs_its_outliers_with_their_text(stapo_run: RunFolder) -> None:
    rows = read_log(stapo_run.path / OUTLIERS)
    assert rows
    for row in rows:
        assert set(row) == {
            *("iteration", "task_id", "episode", "turn", "anchor", "goal", "observation", "reply", "success"),
            *("entropy", "pool", "z", "limit", "group_size", "reward"),
        }
        assert row["goal"] == "Push every box onto a goal."
        assert (row["z"] is None) is (row["pool"] == Pool.SHANNON)
        assert 0 <= row["reward"] <= 1
    by_iteration = {row["iteration"]: row for row in metrics(stapo_run.path)}
    for number in {row["iteration"] for row in rows}:
        found = by_iteration[number]
        assert found["stapo/unmasked_share"] == 0.0
        assert found["stapo/reward"] > 0
        assert found["loss/stapo"] == pytest.approx(
            0.005 * (found["stapo/entropy_full"] + found["stapo/entropy_masked"] - found["stapo/reward"]), abs=1e-5
        )


def test_seconds_of_the_term_are_kept_apart(stapo_run: RunFolder) -> None:
    for row in read_metrics(stapo_run.path):
        assert set(row["seconds"]) >= {"sampling", "update", "stapo"}
        assert all(value >= 0 for value in row["seconds"].values())


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dapo", "g2po", "aem"])
def test_the_terms_go_on_top_of_other_algorithms(algorithm: str, tmp_path: Path) -> None:
    terms = ("algorithm.stapo.alpha=0.005", "algorithm.stapo.entropy=centred", "algorithm.stapo.iqr_lambda=0.1")
    folder = new_run(tmp_path / "run", f"algorithm={algorithm}", "iterations=2", *terms)
    train(folder)
    assert any("loss/stapo" in row for row in read_metrics(folder.path))
    assert {row["pool"] for row in read_log(folder.path / OUTLIERS)} <= {Pool.CENTRED, Pool.SHANNON}


@pytest.mark.slow
def test_a_resumed_run_logs_the_same_outliers_as_an_unbroken_one(tmp_path: Path) -> None:
    whole = new_run(tmp_path / "whole", "algorithm=stapo", "iterations=4")
    train(whole)
    parts = new_run(tmp_path / "parts", "algorithm=stapo", "iterations=4")
    asked = iter([False, False, True])
    train(parts, lambda: next(asked))
    # What a killed run wrote after its last checkpoint is written again, not twice.
    with (parts.path / "stapo_outliers.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"iteration": 3, "reply": "lost"}) + '\n{"iteration": 3, "rep')
    assert train(RunFolder.open(parts.path))["checksum"] == train(RunFolder.open(whole.path))["checksum"]
    assert read_log(parts.path / OUTLIERS) == read_log(whole.path / OUTLIERS) != []


def test_the_log_drops_what_a_resumed_run_writes_again(tmp_path: Path) -> None:
    log = OutlierLog(tmp_path)
    for number in range(3):
        log.write(number, [{"reply": f"é\u2028 {number}"}] * 2)
    assert len(read_log(tmp_path / OUTLIERS)) == 6
    OutlierLog(tmp_path, 1).write(1, [{"reply": "again"}])
    assert [row["reply"] for row in read_log(tmp_path / OUTLIERS)] == ["é\u2028 0", "é\u2028 0", "again"]
    OutlierLog(tmp_path)
    assert read_log(tmp_path / OUTLIERS) == read_log(tmp_path / "nowhere" / OUTLIERS) == []


def test_the_turns_furthest_out_are_kept(stapo_run: RunFolder) -> None:
    from agent_gym.play.episode import read_episodes

    episodes = list(read_episodes(stapo_run.episodes / "iteration-00000.jsonl"))
    count = sum(len(episode.turns) for episode in episodes)
    table = replace(batch_of(make(level("token")).policy).table)
    columns = {name: np.arange(count) for name in ("episode", "n_tokens")}
    zeros = {name: np.zeros(count, dtype=int) for name in ("group", "turn", "reward", "penalty")}
    entropy = np.where(np.arange(count) % 5 == 0, 5.0 + np.arange(count), 1.0)
    table = replace(table, **columns, **zeros, anchor=tuple(map(str, range(count))), entropy=entropy)
    found = locate(table, replace(SOME, mask=MaskKind.NONE, side=Side.UPPER))
    rows = outlier_rows(episodes, found, {int(np.argmax(entropy)): 0.25})
    assert len(rows) == min(MAX_PER_ITERATION, int(found.flagged.sum()))
    assert [row["entropy"] for row in rows] == sorted((row["entropy"] for row in rows), reverse=True)
    assert (rows[0]["entropy"], rows[0]["reward"], rows[-1]["reward"]) == (entropy.max(), 0.25, None)
    places = [(number, turn) for number, episode in enumerate(episodes) for turn in range(len(episode.turns))]
    number, turn = places[int(np.argmax(entropy))]
    assert (rows[0]["episode"], rows[0]["turn"]) == (number, turn)
    assert rows[0]["reply"] == episodes[number].turns[turn].reply

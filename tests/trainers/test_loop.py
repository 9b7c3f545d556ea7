"""Whole runs at toy size: what is logged and kept, what is trained on, and that every algorithm runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_gym.envs.sokoban.env import SokobanEnv
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.play.episode import Episode, read_episodes
from agent_gym.play.reply import Sample
from agent_gym.support.errors import ConfigError
from tests.trainers.runs import (
    assert_equal_runs,
    copying,
    episode_texts,
    metrics,
    new_run,
    small_config,
    stop_after,
    summary,
    train,
)
from trainers.cold_start.start import outside_pool
from trainers.loop import Trainer
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.rollout.samplers.hf import HFSampler
from trainers.run.folder import RunFolder
from trainers.run.metrics import METRICS
from trainers.run.reporter import SilentReporter
from trainers.run.tracking import TENSORBOARD_FOLDER
from trainers.settings.algorithm import ALGORITHMS
from trainers.update.advantages import compute_advantages

EVALUATION = ("test/", "pool/")
ALWAYS = {
    ("sampo", "window"),
    ("stapo", "window"),
    ("sampo_trajectory", "full"),
    ("reinforce", "window"),
    ("cispo", "full"),
}
RUNS = [
    pytest.param(name, context, marks=[] if (name, context) in ALWAYS else pytest.mark.slow)
    for name in sorted(ALGORITHMS)
    for context in ("window", "full")
    if context == "window" or ALGORITHMS[name].stapo is None
]


@pytest.fixture(scope="module")
def pool_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run from its cold start on, on a pool, with evaluations on the way."""
    folder = new_run(
        tmp_path_factory.mktemp("pool") / "run",
        "env.pool_size=5",
        "evaluation.pool=true",
        "evaluation.every=2",
        "run.episodes_groups=50",
        cold=False,
    )
    train(folder)
    return folder


def episodes(folder: RunFolder, pattern: str) -> list[Episode]:
    return [episode for path in sorted(folder.episodes.glob(pattern)) for episode in read_episodes(path)]


def contents(found: list[Episode]) -> set[str]:
    keys = set()
    for split, task in {(episode.split, episode.task_id) for episode in found}:
        env = SokobanEnv(split=split, max_moves=5)
        keys.add(Level.from_xsb(env.tasks.get(task).record).content_key())
    return keys


def test_every_iteration_is_logged_and_every_metric_explained(pool_run: RunFolder) -> None:
    rows = metrics(pool_run.path)
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        for name in row:
            assert name == "iteration" or name in METRICS or name.startswith(EVALUATION), name
    assert [row["iteration"] for row in rows if "test/success" in row] == [1]  # the last one is in the summary
    assert {"loss/total", "policy/entropy", "policy/sampler_gap", "optim/skipped_steps"} <= set(rows[0])


def test_tensorboard_reads_the_run(pool_run: RunFolder) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(pool_run.path / TENSORBOARD_FOLDER))
    events.Reload()
    curve = events.Scalars("rollout/success")
    assert [point.step for point in curve] == [0, 1, 2, 3]
    assert [point.value for point in curve] == pytest.approx(
        [row["rollout/success"] for row in metrics(pool_run.path)]
    )
    assert "test/success" in events.Tags()["scalars"]
    assert events.Tags()["tensors"] == ["metrics/text_summary"]


def test_a_pool_is_trained_on_and_never_cloned_on(pool_run: RunFolder) -> None:
    pool = {f"gen/6x6-1-m5/train/{number}" for number in range(5)}
    trained = {episode.task_id for episode in episodes(pool_run, "iteration-*.jsonl")}
    assert trained == pool
    assert {episode.task_id for episode in episodes(pool_run, "pool-*.jsonl")} == pool
    config = pool_run.config()
    tasks = SokobanEnv(split="train", max_moves=5).tasks
    cloned = set(outside_pool(tasks, config).ids)
    assert len(cloned) >= config.cloning.episodes
    assert not cloned & pool


def test_a_pool_that_takes_every_task_is_refused(tmp_path: Path) -> None:
    rooms = [f"{'#' * (n + 6)}\n#@$.{' ' * n} #\n{'#' * (n + 6)}" for n in range(30)]
    folder = new_run(
        tmp_path / "run", "env.pool_size=100", f"env.options={json.dumps({'levels': rooms})}", cold=False
    )
    with pytest.raises(ConfigError, match=r"pool_size=100 takes all \d\d tasks"):
        train(folder)


def test_evaluation_shares_no_layout_with_training(pool_run: RunFolder) -> None:
    tested = episodes(pool_run, "test-*.jsonl")
    trained = episodes(pool_run, "iteration-*.jsonl")
    assert {episode.split for episode in tested} == {"test"}
    assert {episode.split for episode in trained} == {"train"}
    assert not contents(tested) & contents(trained)


def test_both_evaluations_play_the_same_tasks_and_say_which(pool_run: RunFolder) -> None:
    found = summary(pool_run.path)
    for name in ("test", "pool"):
        before, after = found["before"][name], found["after"][name]
        assert before["tasks_digest"] == after["tasks_digest"]
        assert before["split"] == after["split"] == ("test" if name == "test" else "train")
        assert before["n_ok"] + before["n_error"] >= 4
    pairs = [
        [(e.task_id, e.seed) for e in episodes(pool_run, f"test-{when}.jsonl")] for when in ("before", "after")
    ]
    assert pairs[0] == pairs[1]
    assert len({seed for _, seed in pairs[0]}) == len(pairs[0])


def test_training_starts_behind_the_tasks_that_were_cloned(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=1")
    train(folder)
    numbers = [int(e.task_id.rpartition("/")[2]) for e in episodes(folder, "iteration-*.jsonl")]
    assert min(numbers) == small_config().cloning.episodes


def test_a_sampler_with_weights_of_its_own_samples_what_one_without_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("iterations=3", "optim.learning_rate=0.03", "evaluation.every=1")
    live = new_run(tmp_path / "live", *settings)
    train(live)
    monkeypatch.setattr("trainers.parts.make_sampler", copying)
    copied = new_run(tmp_path / "copied", *settings)
    train(copied)
    assert_equal_runs(live.path, copied.path)
    said = episode_texts(live.path)
    assert len({str(said[f"iteration-{number:05d}.jsonl"]) for number in range(3)}) == 3


def test_the_trainer_evaluates_at_the_temperature_of_the_sampler(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=2", "rollout.temperature=0.5")
    train(folder)
    assert all(row["policy/sampler_gap"] < 1e-5 for row in metrics(folder.path))
    usual = new_run(tmp_path / "usual", "iterations=1")
    train(usual)
    assert metrics(folder.path)[0]["policy/entropy"] < metrics(usual.path)[0]["policy/entropy"] - 0.01


def test_tokens_that_the_engine_holds_for_less_likely_weigh_more_up_to_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Modest(HFSampler):
        """Says of every token that it was less likely by a third than it was."""

        def generate(self, *arguments: Any) -> list[Sample]:
            drawn = super().generate(*arguments)
            return [replace(one, logprobs=tuple(p - math.log(1.5) for p in one.logprobs)) for one in drawn]

    monkeypatch.setattr("trainers.parts.make_sampler", lambda policy, config: Modest(policy))

    def norm(name: str, *settings: str) -> float:
        folder = new_run(tmp_path / name, "iterations=1", *settings)
        train(folder)
        return float(metrics(folder.path)[0]["optim/grad_norm"])

    on, low = "rollout.importance_correction=true", "rollout.importance_cap=1.25"
    plain = norm("plain")
    assert plain > 1e-3
    assert norm("off", low) == plain
    assert norm("on", on) == pytest.approx(1.5 * plain, rel=1e-3)
    assert norm("capped", on, low) == pytest.approx(1.25 * plain, rel=1e-3)


def test_the_learning_rate_follows_its_course_over_the_iterations(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "optim.schedule=linear", "optim.learning_rate=0.004")
    train(folder, stop_after(2))
    train(RunFolder.open(folder.path))
    rates = [row["optim/learning_rate"] for row in metrics(folder.path)]
    assert rates == pytest.approx([0.004, 0.003, 0.002, 0.001])


def test_the_main_process_says_whether_the_run_has_begun(tmp_path: Path) -> None:
    class ReachedError(Exception):
        pass

    class Behind(Ranks):
        """A process whose view of the shared disk lacks what the main one has written."""

        said = iter([True])

        def from_main(self, value: Any) -> Any:
            try:
                return next(self.said)
            except StopIteration:
                raise ReachedError from None

    folder = new_run(tmp_path / "run", f"model.path={tmp_path / 'gone'}", cold=False)
    with pytest.raises(ReachedError):
        Trainer(folder, SilentReporter(), ranks=Behind(rank=1, size=2)).run()


def test_a_learning_rate_of_0_keeps_the_weights_the_kl_and_the_gap(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "optim.learning_rate=0", "optim.weight_decay=0")
    before = Policy.load(folder.reference, device="cpu").checksum()
    assert train(folder)["checksum"] == before
    for row in metrics(folder.path):
        assert row["policy/kl_reference"] == pytest.approx(0.0, abs=1e-9)
        assert row["policy/sampler_gap"] < 1e-5
        assert row["policy/drift"] == pytest.approx(0.0, abs=1e-6)


def test_steps_with_a_broken_gradient_are_counted_and_their_losses_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trainers.learner

    honest = compute_advantages

    def poisoned(table: Any, algorithm: Any) -> Any:
        found = honest(table, algorithm)
        found.total[:] = float("inf")
        return found

    folder = new_run(tmp_path / "run", "iterations=1")
    monkeypatch.setattr(trainers.learner, "compute_advantages", poisoned)
    train(folder)
    (row,) = metrics(folder.path)
    assert row["optim/skipped_steps"] == 1
    assert not [name for name in row if name.startswith("loss/")]
    assert row["rollout/episodes"] > 0


def test_contexts_that_never_fit_give_iterations_without_updates(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", "iterations=2", "rollout.max_context_tokens=10")
    before = Policy.load(folder.reference, device="cpu").checksum()
    assert train(folder)["checksum"] == before
    assert [row["rollout/context_overflow"] for row in metrics(folder.path)] == [1.0, 1.0]


@pytest.mark.parametrize(("name", "context"), RUNS)
def test_every_algorithm_trains_in_both_contexts(name: str, context: str, tmp_path: Path) -> None:
    folder = new_run(
        tmp_path / "run",
        f"algorithm={name}",
        f"env.context={context}",
        "iterations=2",
        "rollout.max_context_tokens=400",
        "optim.minibatch_rows=20",
        "evaluation.episodes=1",
        "run.checkpoint_every=5",
        "rollout.groups=2",
    )
    before = Policy.load(folder.reference, device="cpu").checksum()
    assert train(folder)["checksum"] != before
    rows = metrics(folder.path)
    assert [row["optim/skipped_steps"] for row in rows] == [0, 0]
    assert all(row["optim/steps"] >= 1 and row["loss/total"] is not None for row in rows)
    assert all(row["policy/sampler_gap"] < 1e-4 for row in rows)
    config = RunFolder.open(folder.path).config()
    assert (config.algorithm_name, config.algorithm) == (name, ALGORITHMS[name])


class Listener(SilentReporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)


@pytest.mark.parametrize(("epochs", "warned"), [("1", True), ("6", False)])
def test_a_policy_that_cloning_did_not_teach_to_reply_is_warned_of(
    epochs: str, warned: bool, tmp_path: Path
) -> None:
    settings = (f"cloning.epochs={epochs}", "cloning.episodes=48", "iterations=0")
    folder = new_run(tmp_path / "run", *settings, cold=False)
    listener = Listener()
    Trainer(folder, listener).run()
    assert any("have the right form before training" in text for text in listener.said) is warned

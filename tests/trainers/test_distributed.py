"""Several processes are one trainer: the same losses, gradients, metrics and weights; nobody hangs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from agent_gym.core.info import StopReason
from agent_gym.play.driver import PlayResult
from agent_gym.play.episode import read_episodes
from agent_gym.support.errors import ConfigError
from tests.trainers.ranks import MIXED, OVERFLOWING, run_case, update_cases
from tests.trainers.runs import metrics, new_run, stop_after, summary, train
from tests.trainers.toys import tiny_policy
from trainers.policy.ranks import Ranks, open_ranks
from trainers.policy.token_rows import plan_microbatches
from trainers.rollout.collect import joined
from trainers.run.folder import RunFolder
from trainers.update.minibatches import assign_owners

ROOT = Path(__file__).resolve().parents[2]


def torchrun(case: str, folder: Path, size: int = 2) -> subprocess.CompletedProcess[str]:
    """Run a case of `tests.trainers.ranks` in several processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size)]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [*launcher, "-m", "tests.trainers.ranks", case, str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=850,
    )


@given(st.integers(0, 50), st.integers(1, 9))
def test_shares_cover_everything_once_and_differ_by_one_at_most(count: int, size: int) -> None:
    shares = [Ranks(rank, size).share(count) for rank in range(size)]
    assert [index for share in shares for index in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=12), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_every_minibatch_is_spread_evenly_over_the_ranks(widths: list[list[int]], size: int) -> None:
    lengths = [width for minibatch in widths for width in minibatch]
    places = iter(range(len(lengths)))
    minibatches = [[next(places) for _ in minibatch] for minibatch in widths]
    owners = assign_owners(minibatches, lengths, size)
    assert owners == assign_owners(minibatches, lengths, size)
    for minibatch in minibatches:
        counts = [sum(owners[index] == rank for index in minibatch) for rank in range(size)]
        assert max(counts) - min(counts) <= 1
        loads = [sum(lengths[index] for index in minibatch if owners[index] == rank) for rank in range(size)]
        assert max(loads) - min(loads) <= max(lengths[index] for index in minibatch)
        plan = plan_microbatches([lengths[index] for index in minibatch], 40)
        assert sum(map(len, plan)) == len(minibatch)


def test_a_single_process_needs_no_launcher() -> None:
    with open_ranks() as ranks:
        assert (ranks.rank, ranks.size, ranks.is_main) == (0, 1, True)
        assert (ranks.gather(3), ranks.gather_to_main(3), ranks.from_main(3)) == ([3], [3], 3)
        done: list[int] = []
        ranks.main_first("work", lambda: done.append(1))
        assert done == [1]


def test_a_process_leaves_with_its_words_said_its_exit_handlers_run_and_the_interpreter_whole() -> None:
    lines = [
        "import atexit, sys",
        "from trainers.policy.ranks import leave",
        "class Late:",
        "    def __del__(self): sys.stderr.write('taken apart')",
        "late = Late()",
        "atexit.register(print, 'handled')",
        "print('said', end=' ')",
        "leave()",
    ]
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "said handled\n", "")


def test_failures_keep_the_numbers_of_their_requests_when_results_are_joined() -> None:
    results = [PlayResult([None, None], {1: "a"}), PlayResult([None], {}), PlayResult([None], {0: "b"})]
    assert joined(results) == PlayResult([None] * 4, {1: "a", 3: "b"})


def test_processes_take_a_device_each() -> None:
    assert Ranks().device("cuda:1") == "cuda:1"
    assert Ranks(1, 2, 1).device("cpu") == "cpu"
    with pytest.raises(ConfigError, match="one device for 2 processes"):
        Ranks(1, 2, 1).device("cuda:0")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_give_the_losses_gradients_and_weights_of_one(tmp_path: Path) -> None:
    ran = torchrun("maths", tmp_path)
    assert ran.returncode == 0, ran.stderr
    together = torch.load(tmp_path / "updates.pt")
    moved = 0
    for name, case in update_cases().items():
        alone, found = run_case(case, Ranks()), together[name]
        assert len(found["losses"]) == len(alone["losses"]) > 0, name
        assert torch.tensor(found["losses"]) == pytest.approx(torch.tensor(alone["losses"]), abs=1e-5), name
        assert found["entropies"] == pytest.approx(alone["entropies"], abs=1e-5), name
        assert found["norms"] == pytest.approx(alone["norms"], rel=1e-5), name
        assert float((found["gradient"] - alone["gradient"]).abs().max()) < 1e-5, name
        assert float((found["weights"] - alone["weights"]).abs().max()) < 1e-5, name
        moved += float(alone["gradient"].abs().max()) > 1e-3
    assert moved > 10
    sampled = json.loads((tmp_path / "overflow.json").read_text("utf-8"))
    overflown = [[reason == StopReason.CONTEXT_OVERFLOW for reason in group] for group in sampled["reasons"]]
    assert overflown == [[False] * 2] * 2 + [[True] * 2] * 2
    assert sampled["checksum"] == tiny_policy().checksum()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_may_change_its_number_of_processes_and_prompts_that_do_not_fit_hang_nobody(tmp_path: Path) -> None:
    alone = new_run(tmp_path / "alone", *OVERFLOWING, cold=False)
    train(alone)
    new_run(tmp_path / "begun", *OVERFLOWING, cold=False)
    resumed = new_run(tmp_path / "resumed", *OVERFLOWING, cold=False)
    shutil.copytree(alone.reference, resumed.reference)
    resumed.update_summary({name: alone.summary()[name] for name in ("cold_start", "before")})
    train(resumed, stop_after(2))
    assert len(metrics(resumed.path)) == 2

    ran = torchrun("train", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert len(metrics(tmp_path / "begun")) == 2
    train(RunFolder.open(tmp_path / "begun"))
    for name in ("begun", "resumed"):
        rows = metrics(tmp_path / name)
        assert [list(row) for row in rows] == [list(row) for row in metrics(alone.path)]
        for row, expected in zip(rows, metrics(alone.path), strict=True):
            assert row == pytest.approx(expected, abs=1e-5), name
        assert summary(tmp_path / name)["after"] == summary(alone.path)["after"]
        assert not list((tmp_path / name).rglob(".tmp-*"))
    shares = [row["rollout/context_overflow"] for row in metrics(alone.path)]
    assert 0.0 < sum(shares) < len(shares)
    played = list(read_episodes(tmp_path / "resumed" / "episodes" / "iteration-00003.jsonl"))
    assert {episode.stop_reason for episode in played} >= {StopReason.CONTEXT_OVERFLOW}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_adapters_a_mix_and_a_curriculum_are_trained_and_resumed_as_by_one_process(tmp_path: Path) -> None:
    shutil.copytree(new_run(tmp_path / "cloned").reference, tmp_path / "base")
    settings = (*MIXED, f"model.path={tmp_path / 'base'}")
    alone = new_run(tmp_path / "alone", *settings, cold=False)
    train(alone)
    together = new_run(tmp_path / "together", *settings, cold=False)

    ran = torchrun("mixed", tmp_path)
    assert ran.returncode == 0, ran.stderr
    rows = metrics(together.path)
    assert [row["env/growing/stage"] for row in rows] == [1, 2, 2]
    assert all(row["env/steady/groups"] >= 1 for row in rows)
    for row, expected in zip(rows, metrics(alone.path), strict=True):
        assert row == pytest.approx(expected, abs=1e-5)
    assert summary(together.path)["after"] == summary(alone.path)["after"]
    found, expected, start = (
        load_file(folder / "adapter_model.safetensors")
        for folder in (
            together.checkpoints / "step-00000003" / "model",
            alone.checkpoints / "step-00000003" / "model",
            alone.reference,
        )
    )
    for name, value in expected.items():
        assert float((found[name] - value).abs().max()) < 1e-5, name
        assert float((value - start[name]).abs().max()) > 1e-3, name


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ["fail", "fail_aside"])
def test_a_rank_that_fails_ends_the_others_with_its_error(case: str, tmp_path: Path) -> None:
    ran = torchrun(case, tmp_path)
    assert ran.returncode != 0
    assert "rank 1 failed: ValueError: the dog ate the gradient" in ran.stderr

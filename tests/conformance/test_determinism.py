"""Equal seeds show equal things: in every process, thread and copy, whatever the global generators do."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from agent_gym.core.replies import RejectedReply
from tests.conformance.subjects import make, play_oracle
from tests.conformance.transcript import transcript

ROOT = Path(__file__).resolve().parents[2]


def test_six_resets_with_one_seed_show_the_same(env_id: str) -> None:
    env = make(env_id)
    shown = [env.reset(seed=11) for _ in range(3)]
    env.reset(seed=12)
    env.step(RejectedReply("hm", "Write an action."))
    shown += [env.reset(seed=11) for _ in range(3)]
    assert all(one == shown[0] for one in shown)


def test_processes_with_different_hash_seeds_print_equal_bytes() -> None:
    printed = []
    for value in ("0", "1", "random"):
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONHASHSEED": value, "PYTHONPATH": paths}
        command = [sys.executable, "-m", "tests.conformance.transcript"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        printed.append(done.stdout)
    assert len(printed[0]) > 1_000
    assert printed[0] == printed[1] == printed[2]


def test_global_generators_are_neither_read_nor_touched(env_id: str) -> None:
    seen = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        seen.append(list(transcript(env_id, seeds=(3,))))
        after = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        assert before == after
    assert seen[0] == seen[1]


def test_threads_show_what_one_thread_shows(env_id: str) -> None:
    def first(seed: int) -> tuple[str, str]:
        observation, info = make(env_id).reset(seed=seed)
        return observation, info["task_id"]

    seeds = range(100, 108)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(first, seeds)) == [first(seed) for seed in seeds]


def test_a_copy_in_the_middle_goes_its_own_way(env_id: str) -> None:
    env = make(env_id)
    for seed in range(5):
        env.reset(seed=seed)
        if play_oracle(env, limit=1)[0][1][2]:
            continue  # won at once: nothing to branch from
        twin, other = copy.deepcopy(env), copy.deepcopy(env)
        play_oracle(other)
        other.reset(seed=100)
        alone = play_oracle(copy.deepcopy(env))
        assert play_oracle(twin) == alone
        assert play_oracle(env) == alone
        assert twin.reset() == env.reset(), "the generators agree as well"

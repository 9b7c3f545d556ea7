"""Seeds that depend on names and numbers only."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.seeding import derive_seed, generator, stable_hash

PARTS = st.lists(st.none() | st.integers() | st.text() | st.booleans(), max_size=4)


def test_known_values_never_change() -> None:
    assert stable_hash("é", 1, None, 0.5) == "5a85c582a3f48278"
    assert derive_seed(0, "evaluation", 0) == 8568131910905575165


def test_every_process_derives_the_same() -> None:
    program = "from agent_gym.support.seeding import derive_seed; print(derive_seed('run', 7, ('a', None)))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": value},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for value in ("0", "1")
    }
    assert seen == {f"{derive_seed('run', 7, ('a', None))}\n"}


@given(one=PARTS, two=PARTS)
def test_different_parts_give_different_seeds(one: list[object], two: list[object]) -> None:
    same = [(type(p), p) for p in one] == [(type(p), p) for p in two]
    assert (derive_seed(*one) == derive_seed(*two)) == same
    assert 0 <= derive_seed(*one) < 2**63


def test_one_run_seed_gives_each_episode_its_own() -> None:
    seeds = [derive_seed(0, "evaluation", episode) for episode in range(10)]
    assert len(set(seeds)) == 10
    assert seeds == [derive_seed(0, "evaluation", episode) for episode in range(10)]


def test_generators_repeat() -> None:
    assert generator("a", 1).integers(0, 1000, 5).tolist() == generator("a", 1).integers(0, 1000, 5).tolist()
    assert generator("a", 1).integers(0, 1000, 5).tolist() != generator("a", 2).integers(0, 1000, 5).tolist()

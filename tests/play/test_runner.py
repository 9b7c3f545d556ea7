"""The batch runner: in this process and in worker processes that die, hang and fail."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agent_gym.core.replies import RejectedReply
from agent_gym.play.host import Observed
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner, InProcessRunner
from agent_gym.support.errors import ConfigError, InvalidActionError, UnknownTaskError, WorkerError
from tests import toy
from tests.toy import DoorEnv

FAULTY = "tests.toy:toy/FaultyDoor-v0"
SLOTS = 6
TOY_LINES = Path(toy.__file__).read_text("utf-8").splitlines()


def play(runner: EnvRunner, starts: dict[int, EpisodeRequest]) -> dict[int, list[Observed]]:
    """Play the oracle in every slot to the end, after one rejected reply in every second slot."""
    seen = {slot: [observed] for slot, observed in runner.reset(starts).items()}
    odd = {slot: RejectedReply("hm", "Write an action.") for slot in seen if slot % 2}
    for slot, observed in runner.step(odd).items():
        seen[slot].append(observed)
    while live := [slot for slot in seen if not seen[slot][-1].over]:
        for slot, observed in runner.step(runner.oracle(live)).items():
            seen[slot].append(observed)
    return seen


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolRunner]:
    traces = str(tmp_path_factory.mktemp("traces"))
    with ProcessPoolRunner(FAULTY, {"traces": traces}, SLOTS, 2, timeout_s=2.0, max_restarts=2) as runner:
        yield runner


def in_process(n_slots: int = SLOTS, **options: Any) -> InProcessRunner:
    return InProcessRunner((FAULTY, options), n_slots)


class TestEveryRunner:
    def test_slots_not_named_stay_as_they_are(self) -> None:
        with in_process(2) as runner:
            first = runner.reset({0: EpisodeRequest(seed=1), 1: EpisodeRequest(seed=1)})
            assert first[0].observation == first[1].observation
            for _ in range(3):
                runner.step({0: "say x"})
            assert runner.step({1: "say x"})[1].info["turn"] == 1

    def test_a_start_without_seed_gets_one_that_repeats_the_episode(self) -> None:
        with in_process(2) as runner:
            first = runner.reset({0: EpisodeRequest()})[0]
            again = runner.reset({1: runner.request_of(0)})[1]
            assert (first.observation, first.info) == (again.observation, again.info)
            assert runner.request_of(0).seed is not None

    def test_an_episode_starts_at_the_pinned_task(self) -> None:
        with in_process(1) as runner:
            assert runner.reset({0: EpisodeRequest("door/17", 5)})[0].info["task_id"] == "door/17"

    def test_environments_are_made_when_their_slot_is_first_used(self) -> None:
        made: list[DoorEnv] = []

        def make() -> DoorEnv:
            made.append(DoorEnv())
            return made[-1]

        with InProcessRunner(make, 100) as runner:
            assert not made
            runner.reset({7: EpisodeRequest(seed=0)})
            assert len(made) == 1
            runner.reset({7: EpisodeRequest(seed=1)})
            assert len(made) == 1

    def test_a_slot_outside_the_range_is_named(self) -> None:
        with (
            in_process(2) as runner,
            pytest.raises(ConfigError, match="no slot 2; this runner has slots 0 to 1"),
        ):
            runner.reset({2: EpisodeRequest(seed=0)})

    def test_time_in_environments_adds_up(self) -> None:
        with in_process(1) as runner:
            assert runner.seconds == 0.0
            runner.reset({0: EpisodeRequest(seed=0)})
            after_reset = runner.seconds
            runner.step(runner.oracle([0]))
            assert runner.seconds > after_reset > 0.0

    def test_a_closed_runner_says_so(self) -> None:
        runner = in_process(1)
        runner.close()
        runner.close()
        with pytest.raises(ConfigError, match="closed"):
            runner.reset({0: EpisodeRequest(seed=0)})

    def test_stepping_before_reset_and_after_the_end_needs_a_reset(self) -> None:
        with in_process(1) as runner:
            with pytest.raises(ResetNeeded):
                runner.step({0: "up"})
            runner.reset({0: EpisodeRequest(seed=0)})
            while not runner.step(runner.oracle([0]))[0].over:
                pass
            with pytest.raises(ResetNeeded):
                runner.step({0: "up"})

    def test_a_failed_reset_leaves_no_episode_behind(self) -> None:
        with in_process(1) as runner:
            runner.reset({0: EpisodeRequest(seed=0)})
            with pytest.raises(UnknownTaskError):
                runner.reset({0: EpisodeRequest("door/none", 0)})
            with pytest.raises(ResetNeeded):
                runner.step({0: "up"})


class TestFailuresInsideAnEnvironment:
    @pytest.fixture(params=["process", "pool"])
    def runner(self, request: pytest.FixtureRequest) -> Iterator[EnvRunner]:
        with (
            in_process(3, invalid_action="raise")
            if request.param == "process"
            else ProcessPoolRunner(FAULTY, {"invalid_action": "raise"}, 3, 1)
        ) as runner:
            yield runner

    def test_the_call_finishes_the_other_slots_and_names_slot_task_and_action(self, runner: EnvRunner) -> None:
        runner.reset({slot: EpisodeRequest("door/3", slot) for slot in range(3)})
        with pytest.raises(WorkerError) as caught:
            runner.step({0: "say a", 1: "break it", 2: "say b"})
        line = str(TOY_LINES.index('            raise KeyError("a fault deep inside")') + 1)
        for part in ("slot 1", "door/3", "break it", "KeyError", "a fault deep inside", f"toy.py:{line}, in _act"):
            assert part in str(caught.value)
        assert "\n" not in str(caught.value)
        assert any("Traceback" in note for note in caught.value.__notes__)
        assert list(runner.last_errors) == [1]
        assert {slot: seen.info["turn"] for slot, seen in runner.last_results.items()} == {0: 1, 2: 1}
        with pytest.raises(ResetNeeded):
            runner.step({1: "say a"})
        runner.reset({1: EpisodeRequest(seed=1)})
        assert runner.step({0: "say a", 1: "say a", 2: "say a"})[1].info["turn"] == 1

    def test_errors_of_the_package_keep_their_type(self, runner: EnvRunner) -> None:
        with pytest.raises(UnknownTaskError, match="door/3"):
            runner.reset({0: EpisodeRequest("door/3x", 0)})
        runner.reset({0: EpisodeRequest(seed=0)})
        with pytest.raises(InvalidActionError, match="sing"):
            runner.step({0: "sing"})
        assert runner.step({0: "say a"})[0].info["turn"] == 1


class TestPool:
    def test_equal_seeds_give_the_transcripts_of_one_process(self, pool: ProcessPoolRunner) -> None:
        starts = {slot: EpisodeRequest(seed=100 + slot) for slot in range(SLOTS)}
        with in_process() as alone:
            assert play(pool, starts) == play(alone, starts)

    def test_results_come_in_the_order_asked(self, pool: ProcessPoolRunner) -> None:
        order = [3, 0, 5, 2]
        assert list(pool.reset({slot: EpisodeRequest(seed=slot) for slot in order})) == order

    def test_killed_workers_are_replaced_and_nothing_is_lost_or_counted_twice(
        self, pool: ProcessPoolRunner
    ) -> None:
        starts = {slot: EpisodeRequest(seed=slot) for slot in range(SLOTS)}
        with in_process() as alone:
            expected = [alone.reset(starts)] + [alone.step(dict.fromkeys(starts, f"say {n}")) for n in range(6)]
        seen = [pool.reset(starts)]
        before = pool.worker_pids
        for n in range(6):
            if n in (2, 4):
                for pid in pool.worker_pids[: n // 2]:
                    os.kill(pid, signal.SIGKILL)
            seen.append(pool.step(dict.fromkeys(starts, f"say {n}")))
        assert seen == expected
        assert not set(before) & set(pool.worker_pids)

    def test_a_worker_killed_in_the_middle_of_a_call_is_repaired(self, pool: ProcessPoolRunner) -> None:
        pool.reset({slot: EpisodeRequest(seed=slot) for slot in range(SLOTS)})
        pool.step(dict.fromkeys(range(SLOTS), "say a"))
        # Slots 0, 2 and 4 share a worker: 0 has answered when 2 kills it, 4 has not been tried.
        seen = pool.step({0: "say b", 1: "say b", 2: "die once", 3: "say b", 4: "say b", 5: "say b"})
        assert {slot: observed.info["turn"] for slot, observed in seen.items()} == dict.fromkeys(range(SLOTS), 2)
        assert seen[2].reward == 0.25
        assert pool.step({0: "say c"})[0].info["turn"] == 3

    def test_a_worker_killed_between_calls_restores_running_episodes_only(self, pool: ProcessPoolRunner) -> None:
        pool.reset({0: EpisodeRequest(seed=0), 2: EpisodeRequest(seed=2)})
        while not pool.step(pool.oracle([0]))[0].over:
            pass
        for pid in pool.worker_pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(ResetNeeded):
            pool.step({0: "up"})
        assert pool.step({2: "say a"})[2].info["turn"] == 1

    def test_a_hanging_worker_is_replaced(self, pool: ProcessPoolRunner) -> None:
        pool.reset({0: EpisodeRequest(seed=0), 2: EpisodeRequest(seed=2)})
        seen = pool.step({0: "say a", 2: "hang a while"})
        assert (seen[0].info["turn"], seen[2].info["turn"]) == (1, 1)

    @pytest.mark.slow
    def test_random_kills_at_any_moment_change_nothing(self) -> None:
        draw = random.Random(5)
        starts = {slot: EpisodeRequest(seed=slot) for slot in range(SLOTS)}
        actions = [{s: f"say {n}" for s in range(SLOTS) if draw.random() < 0.7} for n in range(60)]
        options = {"max_turns": 1_000}
        with InProcessRunner((FAULTY, options), SLOTS) as alone:
            expected = [alone.reset(starts), *(alone.step(some) for some in actions)]
        kills = 0
        with ProcessPoolRunner(FAULTY, options, SLOTS, 2, max_restarts=50) as runner:
            done, moved = threading.Event(), threading.Event()

            def kill() -> None:
                nonlocal kills
                while kills < 12 and not done.wait(draw.uniform(0.0, 0.1)):
                    moved.wait()  # let it get somewhere between two strikes
                    moved.clear()
                    for pid in runner.worker_pids[: draw.randint(1, 2)]:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                            kills += 1

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                seen = [runner.reset(starts)]
                for some in actions:
                    seen.append(runner.step(some))
                    moved.set()
                    time.sleep(0.01)
            finally:
                done.set()
                moved.set()
                killer.join()
        assert kills > 5
        assert seen == expected

    def test_an_action_that_kills_every_worker_is_given_up_and_the_rest_goes_on(self) -> None:
        with ProcessPoolRunner(FAULTY, {}, 3, 1, timeout_s=5, max_restarts=1) as pool:
            pool.reset({slot: EpisodeRequest("door/5", slot) for slot in range(3)})
            with pytest.raises(WorkerError) as caught:
                pool.step({0: "say a", 1: "die", 2: "say a"})
            for part in ("slot 1", "door/5", "'die'", "2 times", "turn 1", "-9"):
                assert part in str(caught.value)
            assert {slot: o.info["turn"] for slot, o in pool.last_results.items()} == {0: 1, 2: 1}
            assert pool.step({0: "say b", 2: "say b"})[2].info["turn"] == 2

    def test_an_environment_that_does_not_repeat_is_named(self) -> None:
        with ProcessPoolRunner(FAULTY, {"unsteady": True}, 1, 1) as pool:
            pool.reset({0: EpisodeRequest(seed=0)})
            os.kill(pool.worker_pids[0], signal.SIGKILL)
            with pytest.raises(WorkerError, match=r"FaultyDoorEnv is not deterministic.*slot 0"):
                pool.step({0: "say a"})
            with pytest.raises(ResetNeeded):
                pool.step({0: "say a"})

    def test_wrong_arguments_keep_their_error(self) -> None:
        with (
            ProcessPoolRunner(FAULTY, {"split": "nowhere"}, 1, 1) as pool,
            pytest.raises(ConfigError, match="nowhere"),
        ):
            pool.reset({0: EpisodeRequest(seed=0)})

    def test_arguments_out_of_range_are_named(self) -> None:
        with pytest.raises(ConfigError, match="n_workers=0"):
            ProcessPoolRunner(FAULTY, {}, 2, 0)

    def test_close_leaves_no_process(self) -> None:
        pool = ProcessPoolRunner(FAULTY, {}, 2, 2)
        pool.reset({0: EpisodeRequest(seed=0)})
        pids = pool.worker_pids
        assert len(pids) == 2
        pool.close()
        pool.close()
        assert gone(pids, 0.5)

    def test_an_interrupted_call_can_be_made_again(self, pool: ProcessPoolRunner) -> None:
        starts = {0: EpisodeRequest(seed=0), 1: EpisodeRequest(seed=1)}
        pool.reset(starts)

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                pool.step({0: "hang until the alarm", 1: "say a"})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert pool.step({0: "say a"})[0].info["turn"] == 1

    def test_workers_end_with_their_parent_even_while_an_environment_hangs(self, tmp_path: Path) -> None:
        script = tmp_path / "parent.py"
        script.write_text(
            "import sys\n"
            "from agent_gym.play.request import EpisodeRequest\n"
            "from agent_gym.play.pool import ProcessPoolRunner\n"
            "if __name__ == '__main__':\n"
            f"    pool = ProcessPoolRunner({FAULTY!r}, {{}}, 2, 2, timeout_s=60)\n"
            "    pool.reset({0: EpisodeRequest(seed=0), 1: EpisodeRequest(seed=1)})\n"
            "    print(*pool.worker_pids, flush=True)\n"
            "    pool.step({0: 'hang', 1: 'say a'})\n",
            encoding="utf-8",
        )
        root = Path(__file__).resolve().parents[2]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        with subprocess.Popen(
            [sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment
        ) as parent:
            assert parent.stdout is not None
            pids = [int(word) for word in parent.stdout.readline().split()]
            time.sleep(0.3)
            parent.kill()
        assert len(pids) == 2
        assert gone(pids)

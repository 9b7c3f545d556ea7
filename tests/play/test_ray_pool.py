"""Environments in Ray actors: the transcripts of one process, whatever happens to an actor."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import InProcessRunner
from agent_gym.support.errors import ConfigError, UnknownTaskError, WorkerError
from tests.play.test_runner import FAULTY, SLOTS, gone, in_process, play


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_gym.play.ray_pool import RayPoolRunner

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"agent-gym\[ray\]"):
        RayPoolRunner(FAULTY, {}, 2, 1)


@pytest.mark.slow
class TestRayPool:
    @pytest.fixture(scope="class")
    @classmethod
    def pool(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
        ray = pytest.importorskip("ray")
        from agent_gym.play.ray_pool import RayPoolRunner

        traces = str(tmp_path_factory.mktemp("traces"))
        # The limit leaves room for an actor that starts on a busy machine between two steps.
        with RayPoolRunner(FAULTY, {"traces": traces}, SLOTS, 2, timeout_s=5.0, max_restarts=2) as runner:
            yield runner
        ray.shutdown()

    def test_equal_seeds_give_the_transcripts_of_one_process(self, pool) -> None:  # type: ignore[no-untyped-def]
        starts = {slot: EpisodeRequest(seed=100 + slot) for slot in range(SLOTS)}
        with in_process() as alone:
            assert play(pool, starts) == play(alone, starts)
        order = [3, 0, 5, 2]
        assert list(pool.reset({slot: EpisodeRequest(seed=slot) for slot in order})) == order

    def test_killed_actors_are_replaced_and_nothing_is_lost_or_counted_twice(self, pool) -> None:  # type: ignore[no-untyped-def]
        starts = {slot: EpisodeRequest(seed=slot) for slot in range(SLOTS)}
        with in_process() as alone:
            expected = [alone.reset(starts)] + [alone.step(dict.fromkeys(starts, f"say {n}")) for n in range(5)]
        seen = [pool.reset(starts)]
        before = pool.worker_pids
        assert len(before) == 2
        for n in range(5):
            if n in (1, 3):
                for pid in pool.worker_pids[: 1 + n // 2]:
                    os.kill(pid, signal.SIGKILL)
            seen.append(pool.step(dict.fromkeys(starts, f"say {n}")))
        assert seen == expected
        assert not set(before) & set(pool.worker_pids)

    def test_an_actor_killed_in_the_middle_of_a_call_or_hanging_is_repaired(self, pool) -> None:  # type: ignore[no-untyped-def]
        pool.reset({slot: EpisodeRequest(seed=slot) for slot in range(SLOTS)})
        pool.step(dict.fromkeys(range(SLOTS), "say a"))
        # Slots 0, 2 and 4 share an actor: 0 has answered when 2 kills it, 4 has not been tried.
        seen = pool.step({0: "say b", 1: "say b", 2: "die once", 3: "say b", 4: "say b", 5: "hang a while"})
        assert {slot: observed.info["turn"] for slot, observed in seen.items()} == dict.fromkeys(range(SLOTS), 2)
        assert pool.step({0: "say c"})[0].info["turn"] == 3

    def test_errors_keep_their_type_and_only_the_culprit_is_given_up(self, pool) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(UnknownTaskError, match="door/3"):
            pool.reset({0: EpisodeRequest("door/3x", 0)})
        from agent_gym.play.ray_pool import RayPoolRunner

        with RayPoolRunner(FAULTY, {}, 3, 1, max_restarts=1) as runner:
            runner.reset({slot: EpisodeRequest(seed=slot) for slot in range(3)})
            with pytest.raises(WorkerError, match=r"slot 1 died .* 2 times in a row"):
                runner.step({0: "say a", 1: "die always", 2: "say a"})
            assert {slot: seen.info["turn"] for slot, seen in runner.last_results.items()} == {0: 1, 2: 1}
            pids = runner.worker_pids
        assert gone(pids)
        with pytest.raises(ConfigError, match="closed"):
            runner.step({0: "say a"})

    def test_a_training_stage_plays_in_actors_what_it_plays_in_process(self, pool) -> None:  # type: ignore[no-untyped-def]
        from agent_gym.core.prompts import ContextMode
        from agent_gym.play.driver import play_episodes
        from agent_gym.play.request import EpisodeRequest
        from tests.trainers.toys import tiny_policy
        from trainers.rollout.agent import EpisodeDraws, PolicyAgent
        from trainers.rollout.conversation import PromptEncoder
        from trainers.rollout.environments import SplitEnvs, prompt_builder
        from trainers.rollout.samplers.hf import HFSampler
        from trainers.settings.env import EnvSettings
        from trainers.settings.sampling import SamplingSettings

        policy = tiny_policy()
        played = []
        for ray, workers in ((None, 0), ("local", 2)):
            settings = EnvSettings(ray=ray, workers=workers, prompt="compact", options={"max_turns": 4})
            stage = SplitEnvs.make(settings, "train", 4)
            assert isinstance(stage.runner, InProcessRunner) == (ray is None)
            encoder = PromptEncoder(policy, prompt_builder(stage.handle, settings), ContextMode.WINDOW, 1_000)
            agent = PolicyAgent(encoder, HFSampler(policy), SamplingSettings(max_reply_tokens=4), EpisodeDraws())
            requests = [EpisodeRequest(stage.handle.env.tasks.ids[n], n) for n in range(6)]
            result = play_episodes(stage.handle, stage.runner, agent, requests)
            stage.close()
            played.append([[(t.observation, t.reply_ids, t.reward) for t in e.turns] for e in result.whole])
        assert played[0] == played[1]
        assert len(played[0]) == 6

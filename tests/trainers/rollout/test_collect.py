"""Sampling a batch: groups share a start, further tries play new tasks, failures of the world count apart."""

from __future__ import annotations

import pytest

from agent_gym.core.info import FinishReason
from agent_gym.core.prompts import ContextMode
from agent_gym.support.errors import WorkerError
from tests.trainers.loop import FAULTY, ScriptedSampler, door_encoder, door_split
from tests.trainers.toys import tiny_policy
from trainers.rollout.collect import Collected, GroupCollector
from trainers.rollout.environments import TrainEnv, TrainEnvs
from trainers.rollout.task_order import TaskSampler
from trainers.settings.algorithm import AlgorithmConfig
from trainers.settings.env import EnvSettings, Part
from trainers.settings.sampling import SamplingSettings

UP, OPEN, BREAK = ("<action>up</action>", "<action>open</action>", "<action>break</action>")
GROUPS, SIZE = 4, 3


class Script(ScriptedSampler):
    """Says `answer(try, place in the batch)`; every try is one call, since episodes last one turn."""

    def __init__(self, answer) -> None:  # type: ignore[no-untyped-def]
        policy = tiny_policy()
        self.place = self.seen = 0

        def say(prompt: tuple[int, ...], call: int) -> tuple[tuple[int, ...], FinishReason]:
            self.place = 0 if call != self.seen else self.place
            self.seen = call
            ids = (*policy.encode(answer(call, self.place)), policy.end_id)
            self.place += 1
            return ids, FinishReason.STOP

        super().__init__(say)


def collect(
    sampler: Script, algorithm: AlgorithmConfig, iteration: int = 0, position: int = 0, **options: object
) -> tuple[Collected, TaskSampler]:
    split = door_split(GROUPS * SIZE, FAULTY, max_turns=1, **options)
    tasks = TaskSampler(split.handle.env.tasks, 0, position)
    encoder = door_encoder(tiny_policy(), ContextMode.WINDOW)
    settings = SamplingSettings(max_reply_tokens=40)
    envs = TrainEnvs([TrainEnv(Part("", 1.0, EnvSettings()), split, tasks)])
    collector = GroupCollector(
        envs,
        lambda env: encoder,
        sampler,
        sampling=settings,
        algorithm=algorithm,
        groups=GROUPS,
        group_size=SIZE,
        seed=11,
    )
    with split.runner:
        return collector.collect(iteration), tasks


DYNAMIC = AlgorithmConfig(group_filter="dynamic", max_tries=3)  # type: ignore[arg-type]


def test_a_group_shares_task_seed_and_first_observation() -> None:
    collected, _ = collect(Script(lambda call, place: UP), AlgorithmConfig())
    assert [len(group) for group in collected.groups] == [SIZE] * GROUPS
    for number, group in enumerate(collected.groups):
        assert len({(e.task_id, e.seed, e.turns[0].observation) for e in group}) == 1
        assert {episode.group_id for episode in group} == {f"0/{number}"}
        assert {episode.policy_version for episode in group} == {0}
    assert len({group[0].task_id for group in collected.groups}) == GROUPS
    assert len({group[0].seed for group in collected.groups}) == GROUPS


def test_iterations_have_seeds_of_their_own_and_repeat_them() -> None:
    def seeds(iteration: int) -> list[int | None]:
        collected, _ = collect(Script(lambda call, place: UP), AlgorithmConfig(), iteration)
        return [group[0].seed for group in collected.groups]

    assert seeds(3) == seeds(3)
    assert not set(seeds(3)) & set(seeds(4))


def test_uniform_groups_are_replaced_by_groups_on_new_tasks() -> None:
    # The first try finds one mixed group, the second one, the third as many as are missing.
    def answer(call: int, place: int) -> str:
        group, member = divmod(place, SIZE)
        mixed = group == 0 if call < 2 else True
        return OPEN if mixed and member == 0 else UP

    collected, tasks = collect(Script(answer), DYNAMIC)
    assert collected.stats["filter/tries"] == 3
    assert len(collected.groups) == GROUPS
    assert len(collected.sampled) == GROUPS + (GROUPS - 1) + (GROUPS - 2)
    assert len({group[0].task_id for group in collected.sampled}) == len(collected.sampled)
    assert tasks.position == len(collected.sampled)
    assert all(len({episode.reward for episode in group}) > 1 for group in collected.groups)
    assert collected.stats["filter/kept_share"] == pytest.approx(4 / 9)
    assert collected.stats["filter/filled_groups"] == 0
    assert collected.stats["rollout/episodes"] == 9 * SIZE


def test_the_batch_is_full_even_if_no_group_is_mixed() -> None:
    collected, _ = collect(Script(lambda call, place: UP), DYNAMIC)
    assert [len(group) for group in collected.groups] == [SIZE] * GROUPS
    assert (collected.stats["filter/tries"], collected.stats["filter/filled_groups"]) == (3, GROUPS)


def test_without_or_before_the_filter_one_try_is_taken_as_it_is() -> None:
    warm = AlgorithmConfig(group_filter="dynamic", filter_warmup=2)  # type: ignore[arg-type]
    for algorithm, iteration in ((AlgorithmConfig(), 9), (warm, 1)):
        collected, tasks = collect(Script(lambda call, place: UP), algorithm, iteration)
        assert (len(collected.sampled), tasks.position, collected.stats["filter/active"]) == (GROUPS, GROUPS, 0)
    assert collect(Script(lambda call, place: UP), warm, 2)[0].stats["filter/active"] == 1


def test_success_is_that_of_everything_sampled() -> None:
    collected, _ = collect(Script(lambda call, place: OPEN if place % SIZE == 0 else UP), DYNAMIC)
    episodes = [episode for group in collected.sampled for episode in group]
    share = sum(episode.success for episode in episodes) / len(episodes)
    assert collected.stats["rollout/success"] == pytest.approx(share)
    assert collected.stats["rollout/return"] == pytest.approx(sum(e.reward for e in episodes) / len(episodes))


def test_failures_of_the_world_are_counted_apart_and_drop_one_episode_each() -> None:
    collected, _ = collect(Script(lambda call, place: BREAK if place in (0, 4) else UP), AlgorithmConfig())
    assert collected.stats["rollout/env_errors"] == 2
    assert [len(group) for group in collected.groups] == [2, 2, 3, 3]
    assert collected.stats["rollout/episodes"] == GROUPS * SIZE - 2


def test_a_group_that_failed_as_a_whole_makes_room_for_one_that_was_played() -> None:
    collected, _ = collect(Script(lambda call, place: BREAK if call == 0 and place < SIZE else UP), DYNAMIC)
    assert [len(group) for group in collected.groups] == [SIZE] * GROUPS


def test_a_world_that_always_fails_is_an_error_with_the_first_reason() -> None:
    with pytest.raises(WorkerError, match="failed in every episode") as caught:
        collect(Script(lambda call, place: BREAK), AlgorithmConfig())
    assert "a fault deep inside" in str(caught.value)

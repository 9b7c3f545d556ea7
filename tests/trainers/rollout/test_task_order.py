"""The order of tasks: epochs, one position as the whole state, sets without an end."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.tasks import LazyTaskSet, SeedIds, Task, TaskSet
from trainers.rollout.task_order import TaskSampler


def task_set(size: int) -> TaskSet:
    return LazyTaskSet([f"t{n}" for n in range(size)], lambda name: Task(name, "", "train", None), split="train")


def endless() -> TaskSet:
    return LazyTaskSet(SeedIds("gen/", 2**31), lambda name: Task(name, "", "train", None), split="train")


@given(st.integers(1, 12), st.integers(0, 5), st.lists(st.integers(0, 7), max_size=8))
def test_every_epoch_plays_every_task_once_however_it_is_drawn(size: int, seed: int, draws: list[int]) -> None:
    sampler = TaskSampler(task_set(size), seed)
    played = [task for count in draws for task in sampler.draw(count)]
    assert played == TaskSampler(task_set(size), seed).draw(sum(draws))
    for start in range(0, len(played) - size + 1, size):
        assert sorted(played[start : start + size]) == sorted(task_set(size).ids)
    assert max(Counter(played).values(), default=0) <= -(-len(played) // size)


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 20))
def test_the_position_is_the_whole_state(size: int, before: int, after: int) -> None:
    whole = TaskSampler(task_set(size), 3)
    whole.draw(before)
    resumed = TaskSampler(task_set(size), 3, position=whole.position)
    moved = TaskSampler(task_set(size), 3)
    moved.draw(5)
    moved.position = before
    wanted = whole.draw(after)
    assert resumed.draw(after) == moved.draw(after) == wanted
    assert resumed.position == before + after


def test_epochs_and_seeds_differ_in_order() -> None:
    sampler = TaskSampler(task_set(50), 0)
    first, second = sampler.draw(50), sampler.draw(50)
    assert first != second
    assert first != TaskSampler(task_set(50), 1).draw(50)
    assert first != list(task_set(50).ids)


def test_endless_sets_are_played_in_their_own_order_without_being_listed() -> None:
    sampler = TaskSampler(endless(), 0, position=7)
    assert sampler.draw(3) == ["gen/7", "gen/8", "gen/9"]
    assert TaskSampler(endless(), 0, position=2**31).draw(1) == ["gen/0"]

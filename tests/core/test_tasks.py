"""Tasks, task sets and their files."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.tasks import LazyTaskSet, ListTaskSet, SeedIds, Task, TaskSet, load_tasks, save_tasks
from agent_gym.support.errors import DataError, UnknownTaskError

TASKS = [Task(f"room/{n}", "odd" if n % 2 else "even", "test", {"n": n}) for n in range(20)]


def load_room(task_id: str) -> Task:
    return Task(task_id, "room", "train", {"seed": int(task_id.rpartition("/")[2])})


def lazy(count: int = 1_000_000) -> LazyTaskSet:
    return LazyTaskSet(SeedIds("gen/", count), load_room, split="train")


def holds(tasks: TaskSet, item: Any) -> bool:
    return item in tasks


class TestTaskSets:
    @pytest.fixture(params=["list", "lazy"])
    def tasks(self, request: pytest.FixtureRequest) -> TaskSet:
        return ListTaskSet(TASKS) if request.param == "list" else lazy(20)

    def test_order_index_and_id_agree(self, tasks: TaskSet) -> None:
        assert [task.id for task in tasks] == list(tasks.ids)
        assert [tasks.get(task_id) for task_id in tasks.ids] == list(tasks)
        assert tasks[-1].id == tasks.ids[-1]

    def test_slices_and_subsets_keep_their_order(self, tasks: TaskSet) -> None:
        assert [task.id for task in tasks[5:2:-1]] == list(tasks.ids[5:2:-1])
        some = tasks.subset([tasks.ids[7], tasks.ids[3]])
        assert [task.id for task in some] == [tasks.ids[7], tasks.ids[3]]
        assert holds(some, tasks.ids[7])
        assert not holds(some, tasks.ids[8])

    def test_draws_are_seeded_and_cover_the_set(self, tasks: TaskSet) -> None:
        drawn = [tasks.sample(np.random.default_rng(4)).id for _ in range(3)]
        assert len(set(drawn)) == 1
        rng = np.random.default_rng(0)
        assert {tasks.sample(rng).id for _ in range(500)} == set(tasks.ids)

    def test_an_unknown_id_names_near_ones(self, tasks: TaskSet) -> None:
        near = tasks.ids[3]
        with pytest.raises(UnknownTaskError, match=rf"'{near}x'.*20 tasks.*{near}"):
            tasks.get(near + "x")

    def test_digest_says_whether_two_lists_are_the_same(self, tasks: TaskSet) -> None:
        assert tasks.digest() == pickle.loads(pickle.dumps(tasks)).digest()
        assert tasks[2:5].digest() == tasks.subset(tasks.ids[2:5]).digest()
        assert tasks.digest() != tasks[::-1].digest()
        assert tasks.digest() != tasks[:-1].digest()

    def test_copies_share_and_pickles_equal(self, tasks: TaskSet) -> None:
        assert copy.deepcopy(tasks) is tasks
        assert list(pickle.loads(pickle.dumps(tasks))) == list(tasks)

    def test_membership(self, tasks: TaskSet) -> None:
        assert holds(tasks, tasks[2])
        assert holds(tasks, tasks.ids[2])
        assert not any(holds(tasks, other) for other in ("room/", 3, None))


def test_ids_must_be_unique_and_there_must_be_some() -> None:
    with pytest.raises(DataError, match=r"'room/0' occurs twice"):
        ListTaskSet([TASKS[0], TASKS[0]])
    with pytest.raises(DataError, match="at least one"):
        ListTaskSet([])
    with pytest.raises(DataError, match="'train' holds no task"):
        LazyTaskSet([], load_room, split="train")


class TestSeedIds:
    def test_a_million_ids_cost_nothing(self) -> None:
        tasks = lazy(2**40)
        assert tasks[2**39].record == {"seed": 2**39}
        assert not holds(tasks, f"gen/{2**40}")

    @given(text=st.from_regex(r"gen/[0-9]{0,25}", fullmatch=True) | st.text())
    def test_membership_is_exact(self, text: str) -> None:
        ids = SeedIds("gen/", 1_000)
        assert (text in ids) == (text in {f"gen/{n}" for n in range(1_000)})

    @pytest.mark.parametrize(
        "text", ["gen/007", "gen/-1", "gen/+1", "gen/ 1", "gen/１", "gen/1_0", "gen/", 5, None]
    )
    def test_other_spellings_of_a_number_are_no_ids(self, text: object) -> None:
        assert text not in SeedIds("gen/", 1_000)


class TestFiles:
    def test_tasks_survive_a_file_exactly(self, tmp_path: Path) -> None:
        tasks = [Task("a/é 你", "t", "all", {"text": "\u2028 √ \x85", "n": [1, 2.5, None]}), *TASKS]
        save_tasks(tmp_path / "tasks.jsonl", tasks)
        assert list(load_tasks(tmp_path / "tasks.jsonl")) == tasks

    @pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": "a"}', b'"\xff"', b"3"])
    def test_a_faulty_line_is_named(self, tmp_path: Path, line: bytes) -> None:
        path = tmp_path / "tasks.jsonl"
        save_tasks(path, TASKS[:2])
        path.write_bytes(path.read_bytes() + b"\n" + line + b"\n")
        with pytest.raises(DataError, match=r"tasks\.jsonl, line 4"):
            load_tasks(path)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"none\.jsonl"):
            load_tasks(tmp_path / "none.jsonl")

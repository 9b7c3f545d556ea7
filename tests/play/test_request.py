"""What is asked for: one recipe for the seeds of every evaluation."""

from __future__ import annotations

import pickle

from agent_gym.play.request import EpisodeRequest, evaluation_requests
from agent_gym.support.seeding import derive_seed


def test_an_episode_of_an_evaluation_depends_on_seed_task_and_repetition_only() -> None:
    twice = evaluation_requests(["a", "b", "a"], 3)
    assert [request.task_id for request in twice] == ["a", "b", "a"]
    assert [request.seed for request in twice] == [
        derive_seed(3, "evaluation", "a"),
        derive_seed(3, "evaluation", "b"),
        derive_seed(3, "evaluation", "a", 1),
    ]
    assert {request.plan_seed for request in twice} == {3}
    assert evaluation_requests(["b"], 3) == twice[1:2]


def test_a_request_is_told_by_task_and_seed_and_crosses_to_other_processes() -> None:
    request = EpisodeRequest("door/3", 5, group_id="0/1")
    assert str(request) == "task 'door/3', seed 5"
    assert str(EpisodeRequest(seed=7)) == "a task that the seed chooses, seed 7"
    assert pickle.loads(pickle.dumps(request)) == request

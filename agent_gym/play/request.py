"""One episode to play, as a runner, an agent and the plan of an evaluation all see it; and the plan's recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agent_gym.support.seeding import derive_seed


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """One episode to play.

    Attributes:
        task_id: Task to pin, or None to let the seed choose.
        seed: Seed of the episode: of the reset, and of the agent's own draws. A runner draws one when it is None,
            so that the episode can be re-run.
        group_id: Group of episodes that share a task, for training; None outside of groups.
        plan_seed: Seed of the evaluation that plays the episode, from which `seed` derives; None outside of
            evaluations. Nothing is drawn from it: it tells apart the times that several evaluations, one a seed,
            play one task.
    """

    task_id: str | None = None
    seed: int | None = None
    group_id: str | None = None
    plan_seed: int | None = None

    def __str__(self) -> str:
        """Return what a message says of it: the task and the seed of the reset."""
        task = "a task that the seed chooses" if self.task_id is None else f"task {self.task_id!r}"
        return f"{task}, seed {self.seed}"


def evaluation_requests(task_ids: Iterable[str], seed: int) -> list[EpisodeRequest]:
    """Return the episodes of an evaluation: every task once for each time it is listed, in the order of the list.

    An episode's seed derives from the evaluation's seed, the task and how often the task was listed before. So the
    episode of a task is the same in every evaluation with this seed, whatever else it plays: `agent-gym eval` plays
    the episodes that a training run evaluates itself on.

    Args:
        task_ids: Tasks; one that is listed again is played again, with another seed.
        seed: Seed of the evaluation.
    """
    listed: Counter[str] = Counter()
    requests = []
    for task_id in task_ids:
        repeat = (listed[task_id],) if listed[task_id] else ()
        requests.append(EpisodeRequest(task_id, derive_seed(seed, "evaluation", task_id, *repeat), plan_seed=seed))
        listed[task_id] += 1
    return requests

"""Measures one environment from import to a crowd: the same figures for every environment.

Run as a program it measures in a process of its own, so that import, first construction and memory are those of
a fresh interpreter. Every second episode is the expert's, the others are chance's; their actions are recorded first
and then played again under the clock.

CPU seconds count, except where a server takes part: there the clock on the wall does.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.measure.memory import resident_mib
from benchmarks.measure.throughput.rates import durations

CROWDS = (1, 16, 64, 256)
"""Environments in one process."""
_EPISODES = 24
_TURNS = 30
_NEW_TASKS = 50
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Script:
    """One recorded episode.

    Attributes:
        task_id: Its task.
        actions: What was done.
    """

    task_id: str
    actions: tuple[str, ...]


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Measure an environment.

    Args:
        job: `env_id`, `options`, `seconds` of one measurement, `repeats`, `crowds` (numbers of environments) and
            `wall` (whether the clock on the wall counts).
    """
    clock: Clock = time.perf_counter if job.get("wall") else time.process_time
    begin = clock()
    make_env = importlib.import_module("agent_gym.core.make").make_env
    imported = clock() - begin
    env_id, options, seconds = job["env_id"], job["options"], job["seconds"]

    def make(number: int = 0) -> Any:
        return make_env(env_id, options)

    begin = clock()
    env = make()
    env.reset(seed=0)
    first = clock() - begin
    scripts = [record(env, number) for number in range(_EPISODES)]
    played = [play(env, scripts, seconds, clock) for _ in range(job["repeats"])]
    fresh = iter(range(_EPISODES, 10**9))
    return {
        "env_id": env_id,
        "import_ms": 1000 * imported,
        "first_ms": 1000 * first,
        "construction_ms": 1000 * median(durations(make, seconds / 4, 20, clock)),
        "steps_per_s": median(rate for rate, _ in played),
        "restarts_per_s": median(rate for _, rate in played),
        "resets_per_s": _rate(durations(lambda _: env.reset(seed=next(fresh)), seconds, _NEW_TASKS, clock)),
        "crowds": [crowd(make, count, seconds, clock) for count in job["crowds"]],
        "resident_mib": resident_mib(),
    }


def record(env: Any, number: int) -> Script:
    """Play an episode of at most 30 turns, by the expert when `number` is even and by chance when it is odd."""
    random_action = importlib.import_module("agent_gym.play.agents").random_action
    info = env.reset(seed=number)[1]
    task_id: str = info["task_id"]
    actions: list[str] = []
    while not info["stop_reason"] and len(actions) < _TURNS:
        actions.append(random_action(info, number) if number % 2 else env.unwrapped.oracle_action())
        info = env.step(actions[-1])[4]
    return Script(task_id, tuple(actions))


def play(env: Any, scripts: Sequence[Script], seconds: float, clock: Clock) -> tuple[float, float]:
    """Return steps per second, and starts per second of tasks that were seen before."""
    stepping = starting = 0.0
    steps = starts = 0
    while stepping < seconds:
        for script in scripts:
            begin = clock()
            env.reset(seed=0, options={"task_id": script.task_id})
            middle = clock()
            for action in script.actions:
                env.step(action)
            stepping += clock() - middle
            starting += middle - begin
            steps += len(script.actions)
            starts += 1
    return steps / stepping, starts / starting


def crowd(make: Callable[[], Any], count: int, seconds: float, clock: Clock) -> dict[str, Any]:
    """Return figures of `count` environments that take turns, each in an episode of chance of its own."""
    random_action = importlib.import_module("agent_gym.play.agents").random_action
    before = resident_mib()
    envs = [make() for _ in range(count)]
    infos = [env.reset(seed=number)[1] for number, env in enumerate(envs)]
    spent, steps, seed = 0.0, 0, count
    while spent < seconds or steps < 10 * count:
        actions = [random_action(info, number) for number, info in enumerate(infos)]
        begin = clock()
        infos = [env.step(action)[4] for env, action in zip(envs, actions, strict=True)]
        spent += clock() - begin
        steps += count
        for number, info in enumerate(infos):
            if info["stop_reason"]:
                seed += 1
                infos[number] = envs[number].reset(seed=seed % 1000)[1]
    after = resident_mib()
    return {"envs": count, "steps_per_s": steps / spent, "before_mib": before, "after_mib": after}


def kib_per_env(figures: Mapping[str, Any]) -> float | None:
    """Return the resident memory that each further environment takes, from the largest crowd; None of one."""
    largest = max(figures["crowds"], key=lambda row: row["envs"])
    if largest["envs"] < 2:
        return None
    grown: float = largest["after_mib"] - largest["before_mib"]
    return max(0.0, grown) * 1024 / int(largest["envs"])


def _rate(seconds: Sequence[float]) -> float:
    return len(seconds) / sum(seconds)


if __name__ == "__main__":
    print(json.dumps(measure(json.load(sys.stdin))))

"""Measures gym-sokoban 0.0.6; run as a script by an interpreter that has it, without this package.

Its environment class is used directly, because its registration fails on NumPy 2, and rendering is switched
off: `step` and `reset` draw an image at every call otherwise. Rooms and actions come from standard input, so
that both sides do the same work and their returns can be compared.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import time
import tracemalloc
import warnings
from typing import Any


def main() -> None:
    """Read the job, measure, print one JSON object."""
    job = json.load(sys.stdin)
    noise = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            warnings.simplefilter("ignore")
            report = _measure(job)
    except ImportError as error:
        report = {"missing": str(error)}
    print(json.dumps(report))


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    from gym_sokoban.envs.sokoban_env import SokobanEnv

    SokobanEnv.render = lambda self, *args, **kwargs: None
    report: dict[str, Any] = {"python": sys.version.split()[0], "numpy": np.__version__, "rooms": {}}
    for room in job["rooms"]:
        size, boxes = tuple(room["size"]), room["boxes"]
        fixed = [np.array(grid) for grid in room["fixed"]]
        state = [np.array(grid) for grid in room["state"]]
        players = [np.argwhere(grid == 5)[0] for grid in state]

        def make(size: Any = size, boxes: int = boxes) -> Any:
            return SokobanEnv(dim_room=size, max_steps=10**9, num_boxes=boxes, reset=False)

        def start(env: Any, index: int, fixed: Any = fixed, state: Any = state, players: Any = players) -> None:
            env.room_fixed, env.room_state = fixed[index], state[index].copy()
            env.player_position = players[index].copy()
            env.num_env_steps = env.reward_last = env.boxes_on_target = 0

        def started(number: int, make: Any = make, start: Any = start, pool: int = job["pool"]) -> Any:
            env = make()
            start(env, number % pool)
            return env

        memory = _peak_kib_per_item(started, job["memory_envs"])
        env = make()

        def play(env: Any = env, start: Any = start, actions: Any = room["actions"]) -> float:
            total = 0.0
            for index, sequence in enumerate(actions):
                start(env, index % job["pool"])
                for action in sequence:
                    _, reward, _, _ = env.step(action)
                    total += reward
            return total

        steps = sum(map(len, room["actions"]))
        returns = play()
        rates = [_rate(play, steps, job["seconds"]) for _ in range(job["repeats"])]
        report["rooms"][room["name"]] = {
            "return": returns,
            "steps_per_s": rates,
            "room_seconds": _rooms(env, job, np),
            "peak_kib_per_env": memory,
        }
    return report


def _rooms(env: Any, job: dict[str, Any], np: Any) -> list[float]:
    """Return the CPU seconds of each room generated within the time."""
    seconds: list[float] = []
    while sum(seconds) < job["seconds"] * job["repeats"] or len(seconds) < job["least_rooms"]:
        random.seed(len(seconds))
        np.random.seed(len(seconds))
        begin = time.process_time()
        env.reset()
        seconds.append(time.process_time() - begin)
    return seconds


# Shared with nothing: this file runs without the package, whose `rates` and `memory` hold the same two functions.


def _rate(work: Any, amount: int, seconds: float) -> float:
    done, begin = 0, time.process_time()
    while True:
        work()
        done += amount
        spent = time.process_time() - begin
        if spent >= seconds:
            return done / spent


def _peak_kib_per_item(make: Any, count: int) -> float:
    held = [make(0)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    held += [make(number) for number in range(count)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (peak - before) / 1024 / count


if __name__ == "__main__":
    main()

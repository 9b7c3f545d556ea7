"""Measures Sokoban: the bare board, room generation, and the whole text environment.

The bare board and room generation are what gym-sokoban does with rendering off. The text environment does
more: it parses text, writes the observation, lists admissible actions and looks for deadlocks at every step.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_gym.core.make import make_env
from agent_gym.envs.sokoban.data.generator import RoomSpec, generate_room
from agent_gym.envs.sokoban.world.board import Board, Direction
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.support.seeding import generator
from benchmarks.measure.memory import peak_kib_per_item
from benchmarks.measure.throughput.rates import cpu_rate, durations

ROOMS: tuple[tuple[str, int, int], ...] = (("6x6-1", 6, 1), ("10x10-4", 10, 4))
"""Name, side and boxes of the rooms measured."""
EPISODE_STEPS = 120
_POOL = 16
_EPISODES = 40
_MEMORY_ENVS = 200
_ACTION_TEXTS = (
    "no operation",
    *(f"{verb} {word}" for verb in ("push", "move") for word in ("up", "down", "left", "right")),
)
"""gym-sokoban's actions 0 to 8."""
_CODES = {"#": (0, 0), " ": (1, 1), ".": (2, 2), "$": (1, 4), "*": (2, 3), "@": (1, 5), "+": (2, 5)}
"""XSB symbol -> gym-sokoban's codes of the fixed room and of its state."""


def make_job(seconds: float, repeats: int, least_rooms: int = 5) -> dict[str, Any]:
    """Return what both sides measure: rooms, actions, time.

    Args:
        seconds: CPU seconds of one measurement.
        repeats: Measurements.
        least_rooms: Rooms to generate at least, however long they take.
    """
    rooms = []
    for name, side, boxes in ROOMS:
        rng = generator("throughput", name)
        levels = [generate_room(RoomSpec(side, side, boxes), rng) for _ in range(_POOL)]
        grids = [[[_CODES[cell] for cell in row] for row in level.to_xsb().splitlines()] for level in levels]
        actions = rng.integers(0, len(_ACTION_TEXTS), size=(_EPISODES, EPISODE_STEPS)).tolist()
        rooms.append(
            {
                "name": name,
                "size": [side, side],
                "boxes": boxes,
                "xsb": [level.to_xsb() for level in levels],
                "fixed": [[[code[0] for code in row] for row in grid] for grid in grids],
                "state": [[[code[1] for code in row] for row in grid] for grid in grids],
                "actions": actions,
            }
        )
    return {
        "rooms": rooms,
        "pool": _POOL,
        "seconds": seconds,
        "repeats": repeats,
        "least_rooms": least_rooms,
        "memory_envs": _MEMORY_ENVS,
    }


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a job of `make_job`."""
    report: dict[str, Any] = {"rooms": {}}
    for room in job["rooms"]:
        levels = [Level.from_xsb(text) for text in room["xsb"]]
        boards, envs = _memory(room, levels, job["memory_envs"])
        steps = sum(map(len, room["actions"]))
        play = _board_player(levels, room["actions"])
        text_env = make_env(f"Sokoban-{room['name']}-v0", {"max_turns": EPISODE_STEPS + 1})
        play_text = _text_player(text_env, room["xsb"], room["actions"])
        text_return, text_steps = play_text()
        side, boxes = room["size"][0], room["boxes"]
        spec = RoomSpec(side, side, boxes)
        seconds, repeats, least = job["seconds"], job["repeats"], job["least_rooms"]
        report["rooms"][room["name"]] = {
            "return": play(),
            "text_return": text_return,
            "steps_per_s": [cpu_rate(play, steps, seconds) for _ in range(repeats)],
            "text_steps_per_s": [cpu_rate(play_text, text_steps, seconds) for _ in range(repeats)],
            "room_seconds": durations(_room_maker(spec), seconds * repeats, least),
            "reset_seconds": durations(_resetter(text_env), seconds * repeats, least),
            "peak_kib_per_env": boards,
            "text_peak_kib_per_env": envs,
        }
        text_env.close()
    return report


def _board_player(levels: Sequence[Level], actions: Sequence[Sequence[int]]) -> Callable[[], float]:
    directions = tuple(Direction)

    def play() -> float:
        total = 0.0
        for index, sequence in enumerate(actions):
            board = Board(levels[index % len(levels)])
            push, move = board.push, board.move
            for action in sequence:
                if action == 0:
                    total += board.noop().reward
                elif action < 5:
                    total += push(directions[action - 1]).reward
                else:
                    total += move(directions[action - 5]).reward
        return total

    return play


def _text_player(
    env: Any, rooms: Sequence[str], actions: Sequence[Sequence[int]]
) -> Callable[[], tuple[float, int]]:
    texts = [[_ACTION_TEXTS[action] for action in sequence] for sequence in actions]

    def play() -> tuple[float, int]:
        total, steps = 0.0, 0
        for index, sequence in enumerate(texts):
            env.reset(seed=0, options={"task": rooms[index % len(rooms)]})
            for action in sequence:
                _, reward, terminated, _, _ = env.step(action)
                total += reward
                steps += 1
                if terminated:  # a solved room ends here, while the bare board goes on
                    break
        return total, steps

    return play


def _room_maker(spec: RoomSpec) -> Callable[[int], object]:
    return lambda number: generate_room(spec, generator("throughput room", number))


def _resetter(env: Any) -> Callable[[int], object]:
    return lambda number: env.reset(seed=number)


def _memory(room: Mapping[str, Any], levels: Sequence[Level], count: int) -> tuple[float, float]:
    """Return the peak memory per board and per text environment, in KiB."""

    def text_env(number: int) -> object:
        env = make_env(f"Sokoban-{room['name']}-v0")
        env.reset(seed=0, options={"task": room["xsb"][number % len(levels)]})
        return env

    boards = peak_kib_per_item(lambda number: Board(levels[number % len(levels)]), count)
    return boards, peak_kib_per_item(text_env, count)


if __name__ == "__main__":
    print(json.dumps(measure(json.load(sys.stdin))))

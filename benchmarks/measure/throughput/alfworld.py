"""Measures ALFWorld: the bare engine, the whole text environment, compiling games and indexing a data folder.

Both sides play the same games (in text format 0.4) and the same commands, drawn once at random from the
admissible ones; a digest over all texts and command lists shows that they did the same work. What the stock
engine does at each step, listing the admissible commands, is done here too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_gym.core.make import make_env
from agent_gym.core.tasks import ListTaskSet, Task, TaskSet
from agent_gym.envs.alfworld.data.index import GAME_FILE, build_index
from agent_gym.envs.alfworld.env import ALFWorldEnv
from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.game import Game, compile_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat, read_game_content
from agent_gym.support.seeding import generator
from benchmarks.measure.memory import peak_kib_per_item
from benchmarks.measure.throughput.rates import cpu_rate, durations

TURNS = 50
"""Turns of an episode on our side and of the crowd."""
CROWD = 128
"""Environments played in one process."""
BENCHMARK_GAMES = 3553
"""Training games of the real data set."""
_MEMORY_ENVS = 200


def make_job(
    seconds: float, repeats: int, data: Path | None = None, games: int = 6, stock_turns: int = 25
) -> dict[str, Any]:
    """Return what both sides measure: games, commands, time.

    Args:
        seconds: CPU seconds of one measurement.
        repeats: Measurements.
        data: Folder of real games; generated households when None.
        games: Games to play.
        stock_turns: Commands a game.

    Raises:
        DataError: The folder holds no games.
    """
    tasks = ALFWorldEnv(data=data).tasks
    picked = [tasks[place * len(tasks) // games] for place in range(games)]
    rows = []
    for task in picked:
        record = task.record
        content = read_game_content(Path(record["game_file"])) if "game_file" in record else record
        checked = GameRecord.from_mapping(content)
        sentence = checked.task.removeprefix("Your task is to: ")
        rows.append({"task_id": task.id, "pddl_problem": checked.problem, "task": sentence})
    compiled = [compile_game(GameRecord.from_mapping(row)) for row in rows]
    return {
        "games": rows,
        "commands": [_random_commands(game, stock_turns, number) for number, game in enumerate(compiled)],
        "data": None if data is None else str(data),
        "seconds": seconds,
        "repeats": repeats,
        "memory_envs": _MEMORY_ENVS,
        "crowd": CROWD,
        "index_games": 0 if data is None else BENCHMARK_GAMES,
    }


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a job of `make_job`."""
    rows, seconds, repeats = job["games"], job["seconds"], job["repeats"]
    records = [GameRecord.from_mapping(row) for row in rows]
    games = [compile_game(record) for record in records]
    states = [GameState(game, TextFormat.V04) for game in games]
    tasks = _task_set(rows)
    env = make_env("ALFWorld-v0", {"max_turns": 1_000_000, "tasks": tasks})
    steps = sum(map(len, job["commands"]))
    play, play_text = _engine_player(states, job["commands"]), _text_player(env, tasks.ids, job["commands"])
    text_steps = play_text()
    return {
        "digest": digest(states, job["commands"]),
        "steps_per_s": [cpu_rate(play, steps, seconds) for _ in range(repeats)],
        "text_steps_per_s": [cpu_rate(play_text, text_steps, seconds) for _ in range(repeats)],
        "start_seconds": durations(_starter(states), seconds, 100),
        "text_start_seconds": durations(_text_starter(env, tasks.ids), seconds, 100),
        "compile_seconds": durations(lambda n: compile_game(records[n % len(records)]).vocabulary(), seconds, 5),
        **_memory(records, games, tasks, job["memory_envs"]),
        "crowd_seconds": _crowd_seconds(job),
        "index_seconds": _index_seconds(Path(job["data"]), job["index_games"]) if job["index_games"] else None,
    }


def digest(states: Sequence[GameState], commands: Sequence[Sequence[str]]) -> str:
    """Return a hash of everything that is shown when `commands` are carried out."""
    shown = hashlib.sha256()
    for state, sequence in zip(states, commands, strict=True):
        feedback = state.reset()
        for command in (*sequence, ""):
            row = [feedback, state.admissible(), state.won, state.moves]
            shown.update(json.dumps(row).encode())
            feedback = state.step(command)
    return shown.hexdigest()


def _random_commands(game: Game, turns: int, number: int) -> list[str]:
    rng, state = generator("alfworld throughput", number), GameState(game, TextFormat.V04)
    commands = []
    for _ in range(turns):
        admissible = state.admissible()
        commands.append(admissible[int(rng.integers(len(admissible)))])
        state.step(commands[-1])
    return commands


def _engine_player(states: Sequence[GameState], commands: Sequence[Sequence[str]]) -> Callable[[], None]:
    def play() -> None:
        for state, sequence in zip(states, commands, strict=True):
            state.reset()
            step, admissible = state.step, state.admissible
            for command in sequence:
                step(command)
                admissible()

    return play


def _text_player(env: Any, ids: Sequence[str], commands: Sequence[Sequence[str]]) -> Callable[[], int]:
    def play() -> int:
        steps = 0
        for task_id, sequence in zip(ids, commands, strict=True):
            env.reset(options={"task_id": task_id})
            for command in sequence:
                steps += 1
                if env.step(command)[2]:  # won: the bare engine goes on
                    break
        return steps

    return play


def _starter(states: Sequence[GameState]) -> Callable[[int], None]:
    def start(number: int) -> None:
        state = states[number % len(states)]
        state.reset()
        state.admissible()

    return start


def _text_starter(env: Any, ids: Sequence[str]) -> Callable[[int], None]:
    return lambda number: env.reset(options={"task_id": ids[number % len(ids)]})


def _task_set(rows: Sequence[Mapping[str, Any]]) -> TaskSet:
    return ListTaskSet([Task(row["task_id"], "throughput", "throughput", row) for row in rows])


def _memory(records: Sequence[GameRecord], games: Sequence[Game], tasks: TaskSet, count: int) -> dict[str, float]:
    """Return the peak memory in KiB of a running game, of a text environment, and of a compiled game."""

    def played(number: int) -> GameState:
        state = GameState(games[number % len(games)], TextFormat.V04)
        for turn in range(TURNS):
            admissible = state.admissible()
            state.step(admissible[(7 * turn + number) % len(admissible)])
        return state

    def text_env(number: int) -> object:
        env = make_env("ALFWorld-v0", {"tasks": tasks})
        env.reset(seed=0, options={"task_id": tasks.ids[number % len(tasks)]})
        return env

    def compiled(number: int) -> Game:
        game = compile_game(records[number % len(records)])
        game.vocabulary()
        return game

    for number in range(len(games)):  # shared tables are made before anything is counted
        text_env(number)
        played(number)
    return {
        "kib_per_env": peak_kib_per_item(played, count),
        "text_kib_per_env": peak_kib_per_item(text_env, count),
        "kib_per_game": peak_kib_per_item(compiled, min(count, 30)),
    }


def _crowd_seconds(job: Mapping[str, Any]) -> float:
    """Return the wall seconds of random play: many environments, one process, episodes of `TURNS` turns."""
    tasks = _task_set(job["games"])
    envs = [make_env("ALFWorld-v0", {"max_turns": TURNS, "tasks": tasks}) for _ in range(job["crowd"])]
    rng = generator("alfworld crowd")
    draws = rng.integers(2**31, size=(len(envs), TURNS)).tolist()
    begin = time.perf_counter()
    ids = tasks.ids
    infos = [env.reset(seed=n, options={"task_id": ids[n % len(ids)]})[1] for n, env in enumerate(envs)]
    for turn in range(TURNS):
        for number, env in enumerate(envs):
            admissible = infos[number]["admissible_actions"]
            if admissible:
                infos[number] = env.step(admissible[draws[number][turn] % len(admissible)])[4]
    return time.perf_counter() - begin


def _index_seconds(data: Path, count: int) -> dict[str, float]:
    """Return the wall seconds to list `count` games without and with the index cache."""
    entries = build_index(data).entries
    with _scratch() as folder:
        for number in range(count):
            entry = entries[number % len(entries)]
            task = entry.task_id.split("/")[1]
            target = folder / "data" / "train" / task / f"copy_{number:05d}" / GAME_FILE
            target.parent.mkdir(parents=True)
            _same_file(entry.path, target)
        seconds = {}
        for name in ("cold", "warm"):
            begin = time.perf_counter()
            found = build_index(folder / "data", folder / "cache")
            seconds[name] = time.perf_counter() - begin
            assert len(found.entries) == count
    return seconds


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _same_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


if __name__ == "__main__":
    print(json.dumps(measure(json.load(sys.stdin))))

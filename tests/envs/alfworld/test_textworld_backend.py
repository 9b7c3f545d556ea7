"""The native engine against the installed stock packages, live."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agent_gym.envs.alfworld.data.generator import GeneratedSplit, HouseholdSpec, household_from_seed
from agent_gym.envs.alfworld.oracle import plan
from agent_gym.envs.alfworld.textworld_backend import TextWorldState
from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.game import compile_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat, read_game_content
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.errors import ConfigError

INSTALLED = find_spec("textworld") is not None and find_spec("alfworld") is not None
needs_stock = pytest.mark.skipif(not INSTALLED, reason='needs pip install "agent-gym[alfworld]"')

ODD_COMMANDS = (
    "fly",
    "  look ",
    "Look",
    "go to",
    "take  mug 1 from desk 1",
    "put mug 1 in/on desk 1",
    "examine",
    "",
)
CHANGES = ("take", "move", "put", "open", "close", "heat", "cool", "clean", "use", "slice")


@pytest.mark.skipif(INSTALLED, reason="the stock packages are installed")
def test_without_the_extra_the_error_says_how_to_install_it(real_files: list[Path]) -> None:
    with pytest.raises(ConfigError, match=r'pip install "agent-gym\[alfworld\]"'):
        TextWorldState(read_game_content(real_files[0]))


def _compare(content: dict[str, Any], text_format: TextFormat, rng: random.Random, turns: int = 40) -> int:
    """Play both engines alike; return the number of steps."""
    stock = TextWorldState(content, text_format)
    native = GameState(compile_game(GameRecord.from_mapping(content)), text_format)

    def same(theirs: str, ours: str, command: str) -> None:
        got = (ours, native.admissible(), native.won, native.moves)
        assert got == (theirs, stock.admissible(), stock.won, stock.moves), command

    same(stock.reset(), native.reset(), "reset")
    steps = 0
    for _ in range(turns):
        admissible = native.admissible()
        changing = [command for command in admissible if command.split()[0] in CHANGES]
        draw = rng.random()
        pool = ODD_COMMANDS if draw < 0.05 else changing if draw < 0.7 and changing else admissible
        command = rng.choice(pool)
        same(stock.step(command), native.step(command), command)
        steps += 1
    if plan(native) is None:  # what is in hand fits nowhere
        same(stock.reset(), native.reset(), "reset")
    for command in (*(plan(native) or ()), "look", "inventory"):
        same(stock.step(command), native.step(command), command)
        steps += 1
    assert native.goal_holds()
    stock.close()
    return steps


@needs_stock
@pytest.mark.slow
@pytest.mark.parametrize("task_type", list(TaskType))
def test_both_engines_agree_on_real_and_generated_games(task_type: TaskType, real_files: list[Path]) -> None:
    rng = random.Random(f"differential {task_type}")
    real = read_game_content(rng.choice([path for path in real_files if path.parts[-3].startswith(task_type)]))
    spec = HouseholdSpec(receptacles=rng.randint(5, 25), objects=rng.randint(6, 40), task_types=(task_type,))
    generated = household_from_seed(spec, GeneratedSplit.TEST, rng.randrange(1000))
    old_format = list(TaskType).index(task_type) % 3 == 0
    _compare(real, TextFormat.V03 if old_format else TextFormat.V04, rng)
    _compare(generated, TextFormat.V04, rng)


@needs_stock
@pytest.mark.slow
def test_cached_and_uncached_texts_are_equal(real_files: list[Path]) -> None:
    content = read_game_content(real_files[100])
    fast, slow = TextWorldState(content), TextWorldState(content, cached=False)
    assert fast.reset() == slow.reset()
    rng = random.Random(3)
    for _ in range(12):
        command = rng.choice(fast.admissible())
        assert fast.step(command) == slow.step(command)
        assert fast.admissible() == slow.admissible()


@needs_stock
@pytest.mark.slow
def test_shuffled_names_equal_the_stock_ones_for_one_generator(real_files: list[Path]) -> None:
    content = read_game_content(real_files[7])
    before = random.getstate()
    stock = TextWorldState(content, shuffle=random.Random(11))
    assert random.getstate() == before
    game = compile_game(GameRecord.from_mapping(content))
    native = GameState(game, vocabulary=game.vocabulary(random.Random(11)))
    assert stock.reset() == native.reset()
    assert stock.admissible() == native.admissible()
    assert native.reset() != GameState(game).reset()


@needs_stock
@pytest.mark.slow
def test_the_interpreter_and_the_home_folder_stay_as_they_were(real_files: list[Path], tmp_path: Path) -> None:
    script = f"""
import json, os, random, sys
from pathlib import Path
from agent_gym.envs.alfworld.world.gamefile import read_game_content
from agent_gym.envs.alfworld.textworld_backend import TextWorldState
content = read_game_content(Path({str(real_files[0])!r}))
before = (sys.argv, list(sys.argv), sys.stdout, random.getstate(), dict(os.environ))
for _ in range(2):
    state = TextWorldState(content)
    state.reset(); state.step("look"); state.close()
after = (sys.argv, list(sys.argv), sys.stdout, random.getstate(), dict(os.environ))
print(json.dumps([before[0] is after[0], before == after]))
"""
    environment = {key: value for key, value in os.environ.items() if key != "ALFWORLD_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [True, True]
    assert list(tmp_path.iterdir()) == []


@needs_stock
@pytest.mark.slow
def test_a_new_game_cannot_be_played_in_the_old_text() -> None:
    record = household_from_seed(HouseholdSpec(), GeneratedSplit.TRAIN, 0)
    with pytest.raises(ConfigError, match="only from files of that format"):
        TextWorldState(record, TextFormat.V03)

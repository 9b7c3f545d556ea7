"""The environment on the stock engine: equal to the native one, copied, followed by the oracle."""

from __future__ import annotations

import copy
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_gym.envs.alfworld.env import ALFWorldEnv
from agent_gym.support.errors import ConfigError
from tests.envs.alfworld.test_textworld_backend import INSTALLED, needs_stock
from tests.envs.alfworld.tiny import content


@pytest.mark.skipif(INSTALLED, reason="the stock packages are installed")
def test_without_the_extra_the_environment_is_refused_when_made() -> None:
    with pytest.raises(ConfigError, match=r'needs the stock packages.*pip install "agent-gym\[alfworld\]"'):
        ALFWorldEnv(backend="textworld")


def _pair(**options: Any) -> tuple[ALFWorldEnv, ALFWorldEnv]:
    return ALFWorldEnv(**options), ALFWorldEnv(backend="textworld", **options)


@needs_stock
@pytest.mark.slow
@pytest.mark.parametrize("source", ["small", "real", "old", "shuffled"])
def test_both_backends_show_the_same_to_the_win(source: str, real_data: Path) -> None:
    real = {"data": real_data, "split": "valid_seen"}
    options: dict[str, dict[str, Any]] = {
        "small": {"difficulty": "small"},
        "real": real,
        "old": real | {"text": "0.3"},
        "shuffled": {"difficulty": "small", "domain_randomization": True},
    }
    native, stock = _pair(**options[source])
    rng = random.Random(source)
    assert native.reset(seed=5) == stock.reset(seed=5)
    for _ in range(8):
        action = rng.choice([*native.state.admissible(), "no such command", "  look "])
        shown = native.step(action)
        assert stock.step(action) == shown
        if shown[2]:
            break
    native.reset()
    stock.reset()
    ended = False
    while not ended:
        action = native.oracle_action()
        assert stock.oracle_action() == action
        shown = native.step(action)
        assert stock.step(action) == shown
        ended = shown[2] or shown[3]
    assert shown[4]["success"]
    stock.close()


@needs_stock
@pytest.mark.slow
def test_a_copy_of_a_stock_game_goes_its_own_way() -> None:
    env = ALFWorldEnv(backend="textworld", difficulty="small")
    env.reset(seed=1)
    env.step(env.oracle_action())
    twin, arguments = copy.deepcopy(env), sys.argv
    runs = []
    for one in (twin, env):
        results, ended = [], False
        while not ended:
            results.append(one.step(one.oracle_action()))
            ended = results[-1][2] or results[-1][3]
        runs.append(results)
        one.close()
    assert runs[0] == runs[1]
    assert runs[0][-1][4]["success"]
    assert sys.argv is arguments
    assert twin.reset() == env.reset()


@needs_stock
@pytest.mark.slow
def test_a_game_file_is_played_from_its_content_and_odd_actions_do_nothing() -> None:
    native, stock = _pair()
    start: dict[str, Any] = {"seed": 0, "options": {"task": content()}}
    assert native.reset(**start) == stock.reset(**start)
    for action in ("", "é √ 你", "\x00", "go to desk 1\n", "GO TO desk 1", "put mug 1 in/on desk 1"):
        assert native.step(action) == stock.step(action)
    with pytest.raises(ConfigError, match="human"):
        ALFWorldEnv(backend="textworld", goals="human", data="x", tasks=None)
    stock.close()

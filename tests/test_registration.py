"""Ids of other packages, and environments that are none of ours."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

import agent_gym
from agent_gym.registration import find_spec, full_id, make_env
from agent_gym.support.errors import ConfigError
from tests.toy import DoorEnv


def test_an_id_may_name_the_module_that_registers_it() -> None:
    env_id = "tests.toy:toy/Door-v0"
    assert full_id(env_id) == env_id  # other processes have to import the module too
    assert find_spec(env_id).id == "toy/Door-v0"
    assert isinstance(make_env(env_id, {"max_turns": 3}).unwrapped, DoorEnv)


@pytest.mark.parametrize(
    ("env_id", "parts"),
    [
        ("no_such_module:toy/Door-v0", r"no module 'no_such_module'.*PYTHONPATH"),
        ("tests.no_such_module:toy/Door-v0", r"no module 'tests.no_such_module'"),
        ("tests.toy:toy/Dor-v0", r"registers no 'toy/Dor-v0'; ids like it: .*tests.toy:toy/Door-v0"),
        ("tests.toy:Door-v0", r"registers no 'Door-v0'; ids like it: .*tests.toy:toy/Door-v0"),
        ("nowhere/Lift-v0", r"no environment.*module:namespace/Name-v0"),
        ("CartPole-v1", "is a CartPoleEnv.*TextEnv"),
    ],
)
def test_what_cannot_be_played_is_named(env_id: str, parts: str) -> None:
    with pytest.raises(ConfigError, match=parts):
        make_env(env_id)


@pytest.mark.parametrize(
    ("module", "text", "said"),
    [
        (
            "needing",
            "import a_package_that_is_not_there\n",
            "ModuleNotFoundError: .*'a_package_that_is_not_there'",
        ),
        ("misspelled", "def x(:\n", r"SyntaxError: invalid syntax \(.*misspelled_envs.py:1\)"),
        ("failing", "\n\n{}['key']\n", r"KeyError: 'key' \(.*failing_envs.py:3"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_the_place(
    module: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}_envs.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=said):
        make_env(f"{module}_envs:space/Name-v0")


class UnmadeEnv(DoorEnv):
    """A door that cannot be made."""

    def __init__(self, **options: object) -> None:
        len(3)  # type: ignore[arg-type]


def test_a_fault_of_a_constructor_is_told_with_the_place() -> None:
    agent_gym.register_env("toy/Unmade-v0", "tests.test_registration:UnmadeEnv")
    try:
        with pytest.raises(ConfigError, match=r"TypeError: .* has no len.. \(.*test_registration.py:"):
            make_env("toy/Unmade-v0")
    finally:
        del gym.registry["toy/Unmade-v0"]


def test_registered_environments_map_gymnasiums_limit_and_keep_their_options() -> None:
    agent_gym.register_env("toy/Registered-v0", "tests.toy:DoorEnv", max_turns=7)
    try:
        assert gym.make("toy/Registered-v0").unwrapped.max_turns == 7  # type: ignore[attr-defined]
        assert gym.make("toy/Registered-v0", max_episode_steps=2).unwrapped.max_turns == 2  # type: ignore[attr-defined]
    finally:
        del gym.registry["toy/Registered-v0"]


def test_near_ids_are_named_in_order_of_likeness() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean Sokoban-v0"):
        make_env("Sokobann-v0")
    with pytest.raises(ConfigError, match=r"Did you mean ALFWorld-v0"):
        make_env("AlfWorlds-v0")

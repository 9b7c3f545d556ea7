"""A task file is played by the environment that it is for, and refused by every other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_gym.core.tasks import save_tasks
from agent_gym.play.driver import EnvHandle
from agent_gym.support.errors import ConfigError

IDS = {"Sokoban-v0": {}, "ALFWorld-Small-v0": {}, "WebShop-v0": {"difficulty": "tiny"}, "SearchQA-v0": {}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tasks")
    found = {}
    for env_id, options in IDS.items():
        found[env_id] = folder / f"{env_id}.jsonl"
        save_tasks(found[env_id], EnvHandle.make(env_id, {**options, "split": "test"}).env.tasks[:2])
    return found


@pytest.mark.parametrize("env_id", IDS)
def test_tasks_of_another_environment_are_refused(env_id: str, files: dict[str, Path]) -> None:
    for other, path in files.items():
        options = {**IDS[env_id], "tasks": str(path)}
        if other == env_id:
            env = EnvHandle.make(env_id, options).env
            env.reset(seed=0, options={"task_id": env.tasks.ids[0]})
            continue
        with pytest.raises(ConfigError, match=f"{path.name} holds no tasks of agent_gym/{env_id}: its first one"):
            EnvHandle.make(env_id, options)

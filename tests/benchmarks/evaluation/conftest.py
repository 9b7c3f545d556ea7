from __future__ import annotations

import pytest

SETTINGS = {
    "env": {"id": "agent_gym/Sokoban-v0", "prompt": "compact", "history_length": 0},
    "cloning": {"episodes": 24, "batch_size": 16, "learning_rate": 2e-3},
    "rollout": {"groups": 2, "group_size": 2, "max_reply_tokens": 6, "max_context_tokens": 256},
    "optim": {"learning_rate": 1e-3},
    "evaluation": {"episodes": 2},
    "iterations": 1,
    "device": "cpu",
}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """Return the folder of a training run of a few seconds."""
    from trainers.loop import Trainer
    from trainers.run.folder import RunFolder
    from trainers.run.reporter import SilentReporter
    from trainers.settings.reading import resolve_config

    folder = tmp_path_factory.mktemp("runs") / "tiny"
    Trainer(RunFolder.create(folder, resolve_config(SETTINGS)), SilentReporter()).run()
    return folder


@pytest.fixture
def service():
    """Return an OpenAI-compatible server of this process."""
    from tests.benchmarks.evaluation.service import Service

    running = Service()
    yield running
    running.close()

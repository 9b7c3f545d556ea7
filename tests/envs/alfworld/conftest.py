"""Fixtures: the real games of the recordings folder, unpacked once a session."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data import shared_data


@pytest.fixture(scope="session", autouse=True)
def _own_index_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the indexes of test folders out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_GYM_CACHE", str(tmp_path_factory.mktemp("index")))
        yield


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that holds `json_2.1.1` with 340 real games."""
    archive = shared_data("alfworld/json_2.1.1.tar.xz")
    folder = tmp_path_factory.mktemp("alfworld")
    with tarfile.open(archive) as stream:
        stream.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def real_files(real_data: Path) -> list[Path]:
    """All game files, sorted."""
    return sorted((real_data / "json_2.1.1").glob("*/*/*/game.tw-pddl"))

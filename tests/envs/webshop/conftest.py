"""Fixtures: the recorded catalogue as a store, and its recorded price tables, made once a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_gym.envs.webshop.data.official import OfficialFiles, import_catalog
from agent_gym.envs.webshop.data.store import Store
from tests.data import shared_data
from tests.envs.webshop.recorded import FOLDER, KINDS, recording


@pytest.fixture(scope="session")
def recorded_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The recorded catalogue, imported."""
    files = OfficialFiles.find(shared_data(FOLDER))
    return import_catalog(files, tmp_path_factory.mktemp("webshop") / "store")


@pytest.fixture(scope="session")
def recorded_prices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind of goals -> file with the prices that the recorded process drew."""
    folder = tmp_path_factory.mktemp("prices")
    paths = {}
    for kind in KINDS:
        paths[kind] = folder / f"{kind}.json"
        paths[kind].write_text(json.dumps(recording(kind)[0]["product_prices"]))
    return paths

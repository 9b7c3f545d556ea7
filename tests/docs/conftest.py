"""What the tests of the pages share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.world import make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    return make_world(tmp_path_factory.mktemp("world"))

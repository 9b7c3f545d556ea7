"""Fixtures shared by every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.browser import open_browser

# A deadline measures how busy the machine is, not what is tested.
settings.register_profile("agent-gym", deadline=None)
settings.load_profile("agent-gym")

# One thread per process: small models are faster with it, and results do not depend on the core count.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests cache (indexes, generated catalogues) out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_GYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; tests that use it are skipped where there is none."""
    yield from open_browser()

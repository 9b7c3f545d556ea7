"""Every conformance test that asks for `env_id` runs once for each id."""

from __future__ import annotations

import pytest

from tests.conformance.subjects import ALL_IDS, SLOW, runnable


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "env_id" in metafunc.fixturenames:
        ids = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ALL_IDS]
        metafunc.parametrize("env_id", ids, indirect=True)


@pytest.fixture
def env_id(request: pytest.FixtureRequest) -> str:
    runnable(request.param)
    return str(request.param)

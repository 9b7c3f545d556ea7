"""Every conformance test that asks for `env_id` runs once for each id."""

from __future__ import annotations

import pytest

from tests.conformance.subjects import ALL_IDS, runnable


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "env_id" in metafunc.fixturenames:
        metafunc.parametrize("env_id", ALL_IDS, indirect=True)


@pytest.fixture
def env_id(request: pytest.FixtureRequest) -> str:
    runnable(request.param)
    return str(request.param)

"""What settings do to the process that trains."""

from __future__ import annotations

import os

import pytest

from tests.trainers.runs import small_config
from trainers.policy.devices import configure_torch

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@pytest.mark.parametrize(
    ("asked", "given", "found"), [("true", None, ":4096:8"), ("true", ":16:8", ":16:8"), ("false", None, None)]
)
def test_a_deterministic_run_has_a_workspace_of_fixed_size_unless_the_user_chose_one(
    asked: str, given: str | None, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WORKSPACE, given or "")  # put back after the test, whatever it was
    if given is None:
        monkeypatch.delenv(WORKSPACE)
    configure_torch(small_config(f"run.deterministic={asked}").run)
    assert os.environ.get(WORKSPACE) == found

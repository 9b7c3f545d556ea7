"""The code of docs/adapters.md runs as it stands, where the frameworks are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"


def block(heading: str) -> str:
    section = DOCS.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert found, heading
    return found[1]


def run(heading: str, **scope: object) -> None:
    exec(compile(block(heading), f"docs/adapters.md, {heading}", "exec"), scope)


def test_skyrl(capsys):
    pytest.importorskip("skyrl_gym", reason="the extra [skyrl] is not installed")
    run("SkyRL-gym")
    assert capsys.readouterr().out.endswith(" True\n")


def test_gem():
    pytest.importorskip("gem", reason="the extra [gem] is not installed (it refuses Python above 3.12.0)")
    run("GEM")


@pytest.mark.slow
def test_openenv(openenv_address, capsys):
    run("OpenEnv", openenv_address=openenv_address)
    assert "max_turns" in capsys.readouterr().out


@pytest.mark.slow
def test_verifiers(model_address, capsys):
    run("verifiers", address=model_address)
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.slow
def test_trl(tmp_path, tiny_model):
    model, tokenizer, settings = tiny_model
    run("TRL", model=model, tokenizer=tokenizer, folder=str(tmp_path), settings=settings)

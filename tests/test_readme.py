"""The README's code is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(python_blocks())))
def test_python_blocks_run_as_written(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(python_blocks()[number], f"README block {number}", "exec"), {"__file__": str(README)})
    if number == 0:
        assert "True" in capsys.readouterr().out  # the oracle has won


def test_ids_named_in_the_table_are_registered() -> None:
    import agent_gym

    text = README.read_text(encoding="utf-8")
    named = set(re.findall(r"`(agent_gym/[A-Za-z0-9-]+-v0)`", text))
    assert named
    assert named <= set(agent_gym.known_ids())

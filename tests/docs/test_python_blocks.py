"""Every Python block is run as it stands; settings and data formats in other languages are read."""

from __future__ import annotations

import ast
import dataclasses
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks
from trainers.settings.reading import resolve_config
from trainers.settings.run import TrainConfig

TUTORIAL = "docs/tutorial.md"
PYTHON = [block for block in blocks() if block.language == "python"]
ELSEWHERE = (TUTORIAL, "README.md", "docs/adapters.md")
"""Pages whose blocks have a test of their own."""
RUN = [block for block in PYTHON if block.page not in ELSEWHERE]
TOML = [block for block in blocks() if block.language == "toml"]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.place)
def test_python_blocks_are_python(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.place)
def test_python_blocks_run_as_written(block: Block, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.title:
        pytest.skip(f"the block shows the file {block.title}")
    monkeypatch.chdir(world)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
    exec(compile(block.text, block.place, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", TOML, ids=lambda block: block.place)
def test_settings_blocks_hold_settings_that_exist(block: Block) -> None:
    values = tomllib.loads(block.text)
    if set(values) <= {item.name for item in dataclasses.fields(TrainConfig)}:
        resolve_config(values)

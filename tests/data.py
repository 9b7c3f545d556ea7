"""Where recorded data of the original benchmarks lies, when it is present."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(relative: str) -> Path:
    """Return a path below the recordings folder, or skip the calling test with the reason.

    The folder is `AGENT_GYM_TEST_DATA` when set, else `shared/data` beside the checkout.
    """
    root = Path(os.environ.get("AGENT_GYM_TEST_DATA", _DEFAULT))
    path = root / relative
    if not path.exists():
        pytest.skip(f"recorded data {relative!r} is not at {root} (set AGENT_GYM_TEST_DATA)")
    return path


def read_json(relative: str) -> Any:
    """Read one recorded JSON file, decompressing `.xz`."""
    path = shared_data(relative)
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            return json.load(stream)
    return json.loads(path.read_text(encoding="utf-8"))


def read_jsonl(relative: str) -> list[Any]:
    """Read one recorded JSON-lines file, decompressing `.xz`."""
    path = shared_data(relative)
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream if line.strip()]

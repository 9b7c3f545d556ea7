from __future__ import annotations

import pytest
import torch

from tests.trainers.policy.families import FAMILIES, LARGEST_GAP, read_rows, row_of

NAMES = sorted(FAMILIES)
QUICK = NAMES[::3]


def without_gap(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return cells[:2] + cells[3:]


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES],
)
def test_a_family_does_what_the_page_says(family, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed")
    torch.set_num_threads(1)
    row = row_of(family, tmp_path)
    assert row.gap <= LARGEST_GAP
    assert without_gap(row.text()) == without_gap(read_rows()[family])


def test_the_page_lists_the_families_that_are_tried():
    assert list(read_rows()) == NAMES
    assert len(NAMES) >= 35

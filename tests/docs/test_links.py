"""Links between files of the repository lead somewhere, on pages that the site does not hold too."""

from __future__ import annotations

import re

from tests.docs.blocks import FENCE, ROOT, pages

LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)(#[^)\s]+)?\)")


def test_relative_links_lead_to_files() -> None:
    wrong = []
    for page in pages():
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target, _ in LINK.findall(text):
            if not (page.parent / target).exists():
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
    assert not wrong


def test_files_named_in_code_spans_exist() -> None:
    named = re.compile(r"`((?:docs|docker|trainers|agent_gym|benchmarks|tests)/[\w/.-]+\.(?:py|md|toml|yaml|sh))`")
    wrong = []
    for page in pages():
        for name in named.findall(page.read_text(encoding="utf-8")):
            if not (ROOT / name).exists():
                wrong.append(f"{page.relative_to(ROOT)}: {name}")
    assert not wrong

"""The site builds without a warning and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, ROOT

pytestmark = pytest.mark.slow
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a broken link, an unknown anchor or a page that is in no menu fails here."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra [docs])")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    return folder


class Loads(HTMLParser):
    """Collects what a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") in ("canonical", "next", "prev", "alternate", "edit"):
            return
        address = values.get(LOADING.get(tag, ""))
        if address:
            self.found.append(address)


def test_every_page_is_built_and_loads_nothing_from_other_addresses(site: Path) -> None:
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    written = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert {name for name in written if not name.startswith("dev/")} <= built
    for path in site.rglob("*.html"):
        parser = Loads()
        parser.feed(path.read_text("utf-8"))
        assert parser.found
        outside = [address for address in parser.found if re.match(r"(https?:)?//", address)]
        assert not outside, f"{path.name} loads {outside}"


def test_generated_parts_are_filled_in(site: Path) -> None:
    assert "agent_gym/SearchQA-v0" in (site / "environments" / "index.html").read_text("utf-8")
    reference = (site / "reference" / "commands.html").read_text("utf-8")
    assert "agent-gym data check" in reference
    assert "--agent-option" in reference
    sokoban = (site / "environments" / "sokoban.html").read_text("utf-8")
    assert "max_actions_per_turn" in sokoban
    assert "Boxoban" in sokoban
    for path in site.rglob("*.html"):
        assert "<!-- generated" not in path.read_text("utf-8")

from __future__ import annotations

from pathlib import Path

from tests.cli.command import agent_gym, assert_one_line_error
from tests.envs.webshop.test_store import write


def words(text: str) -> str:
    """Return a text with single blanks."""
    return " ".join(text.split())


def test_a_catalogue_is_imported_and_shown(tmp_path: Path) -> None:
    write(tmp_path / "files")
    done = agent_gym("data", "import-webshop", "files", "store", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for part in ("products 12", "human goals 3 (train 3", "items_shuffle.json", "sha256"):
        assert part in words(done.stdout)
    again = agent_gym("data", "import-webshop", "files", "store", cwd=tmp_path)
    assert_one_line_error(again, "exists already")
    replaced = agent_gym("data", "import-webshop", "files", "store", "--replace", "--limit", "5", cwd=tmp_path)
    assert replaced.returncode == 0, replaced.stderr
    assert "products 5" in words(replaced.stdout)


def test_a_folder_without_a_catalogue_is_named(tmp_path: Path) -> None:
    assert_one_line_error(agent_gym("data", "import-webshop", ".", "store", cwd=tmp_path), "items_shuffle.json")


def test_a_catalogue_is_generated(tmp_path: Path) -> None:
    done = agent_gym("data", "generate-webshop", "store", "--products", "30", "--difficulty", "tiny", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nouns of titles stored" in words(done.stdout)

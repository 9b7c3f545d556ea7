"""`agent-gym index`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import agent_gym, assert_one_line_error
from tests.retrieval.conftest import make_passages, write_corpus


def test_build_show_and_search(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", make_passages(50))
    done = agent_gym("index", "build", "corpus.jsonl", "it.index", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("50 passages of corpus.jsonl in it.index, fingerprint ")
    done = agent_gym("index", "search", "it.index", "castle item6", "-k", "2", cwd=tmp_path)
    assert done.returncode == 0 and "p6  Castle 6" in done.stdout.splitlines()[0]
    done = agent_gym("index", "show", "it.index", "--verify", cwd=tmp_path)
    assert done.returncode == 0 and "every file is as recorded" in done.stdout
    write_corpus(corpus, make_passages(49))
    assert_one_line_error(agent_gym("index", "build", "corpus.jsonl", "it.index", cwd=tmp_path), "--overwrite")
    (tmp_path / "it.index" / "passages.ids").unlink()
    assert_one_line_error(agent_gym("index", "show", "it.index", "--verify", cwd=tmp_path), "passages.ids")


def test_errors_are_one_line(tmp_path: Path) -> None:
    assert_one_line_error(agent_gym("index", "build", "none.jsonl", "x", cwd=tmp_path), "none.jsonl")
    assert_one_line_error(agent_gym("index", "show", "none", cwd=tmp_path), "agent-gym index build")
    assert_one_line_error(agent_gym("index", "search", "none", "q", "--kind", "bm52", cwd=tmp_path), "bm25")

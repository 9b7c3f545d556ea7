"""Suites: fixed task lists, resumed where interrupted, data that are missing named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_gym.cli.main import build_app
from agent_gym.play.episode import read_episodes
from agent_gym.support.errors import ConfigError, DataError
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.progress import EvaluationProgress
from benchmarks.evaluation.results import EpisodeRow, EvaluationResult
from benchmarks.evaluation.suites.run import PartStatus, run_suite, task_list
from benchmarks.evaluation.suites.suite import Suite, bundled_suites, load_suite

BASE = EvalConfig(env_id="Sokoban-v0")
SMALL = """
about = "Two worlds."
[[part]]
name = "rooms"
env = "Sokoban-v0"
splits = ["valid", "test"]
episodes = 6
max_turns = 4
[[part]]
name = "real"
env = "ALFWorld-v0"
splits = ["valid_seen"]
options = { data = "no/such/games" }
needs = { data = "alfworld-download fetches them" }
"""


def suite_file(folder: Path, text: str = SMALL) -> Path:
    path = folder / "own.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", bundled_suites())
def test_bundled_suites_are_whole(name: str) -> None:
    suite = load_suite(name)
    assert suite.about
    for part in suite.parts:
        assert part.needs or part.episodes, f"{part.name} plays all of a generated split"
        if name == "standard":
            assert part.digest
            assert not part.needs


def test_the_task_lists_of_the_standard_suite_are_the_frozen_ones() -> None:
    for part in load_suite("standard").parts:
        assert task_list(part) == (part.episodes, part.digest), part.name


def test_an_interrupted_suite_goes_on_and_counts_every_episode_once(tmp_path: Path) -> None:
    suite = load_suite(suite_file(tmp_path))
    seen: list[EpisodeRow] = []

    def interrupt(row: EpisodeRow) -> None:
        seen.append(row)
        if len(seen) == 8:  # in the second part
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, "random", tmp_path / "out", BASE, on_episode=interrupt)
    again: list[EpisodeRow] = []
    results = run_suite(suite, "random", tmp_path / "out", BASE, on_episode=again.append)
    assert len(again) == 4
    assert [found.status for found in results] == [PartStatus.PLAYED, PartStatus.PLAYED, PartStatus.SKIPPED]
    for name in ("rooms-valid", "rooms-test"):
        assert EvaluationResult.read(tmp_path / "out" / f"{name}.json").summary.n_ok == 6
        played = [episode.task_id for episode in read_episodes(tmp_path / "out" / f"{name}.episodes.jsonl")]
        assert len(played) == len(set(played)) == 6


def test_missing_data_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_GYM_DATA", raising=False)
    suite = load_suite(suite_file(tmp_path))
    only = Suite("own", "", suite.parts[2:])
    found = run_suite(only, "oracle", tmp_path, BASE)[0]
    assert found.result is None
    for word in ("no/such/games", "alfworld-download", "AGENT_GYM_DATA"):
        assert word in found.reason


def test_another_task_list_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    text = SMALL.replace("max_turns = 4", 'max_turns = 4\ndigests = { valid = "00" }')
    with pytest.raises(DataError, match=r"rooms-valid.*digest 00; results would not compare"):
        run_suite(load_suite(suite_file(tmp_path, text)), "random", tmp_path / "out", BASE)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has none"),
        ("[[part]]\nname = 'a'\nenv = 'Sokoban-v0'", "splits is missing"),
        (SMALL.replace("episodes", "epsodes"), "Did you mean 'episodes'"),
        (SMALL + "[[part]]\nname='rooms'\nenv='Sokoban-v0'\nsplits=['test']", "twice"),
        ("part = [", "is not TOML"),
    ],
)
def test_a_faulty_suite_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_suite(suite_file(tmp_path, text))


def test_an_unknown_suite_names_the_bundled_ones() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'smoke'.*paper.*standard"):
        load_suite("smok")
    with pytest.raises(ConfigError, match=r"there is no suite file nowhere/mine\.toml"):
        load_suite("nowhere/mine.toml")


def test_an_interrupted_suite_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EvaluationProgress, "ended", interrupt)
    arguments = [
        "eval",
        "--suite",
        str(suite_file(tmp_path)),
        "--agent",
        "random",
        "--output",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(build_app(), arguments)
    assert (done.exit_code, done.stderr) == (130, "interrupted; the same command goes on\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--suite", "smoke"), "--agent"),
        (("--suite", "smoke", "--agent", "random"), "--output"),
        (("--suite", "smoke", "--agent", "random", "--output", "x", "-n", "5"), "leave out --episodes"),
        (("--suite", "smok", "--agent", "random", "--output", "x"), "Did you mean 'smoke'"),
    ],
)
def test_the_command_says_what_a_suite_needs(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(build_app(), ["eval", *arguments], catch_exceptions=False)


def test_from_a_suite_to_its_leaderboard_and_its_episodes(tmp_path: Path) -> None:
    app, path = build_app(), suite_file(tmp_path)
    for agent in ("random", "oracle"):
        arguments = ["eval", "--suite", str(path), "--agent", agent, "--output", str(tmp_path / "results" / agent)]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0
        assert "skipped real-valid-seen: no data named 'no/such/games'" in done.stdout
    pages = [tmp_path / name for name in ("board.html", "board.md", "board.json", "view.html")]
    written = ["--html", str(pages[0]), "--markdown", str(pages[1]), "--json", str(pages[2])]
    board = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "results"), *written], catch_exceptions=False)
    assert "vs oracle" in board.stdout
    again = CliRunner().invoke(app, ["leaderboard", str(pages[2]), "--split", "valid"], catch_exceptions=False)
    assert again.stdout.rstrip() in board.stdout
    seen = CliRunner().invoke(
        app, ["view", str(tmp_path / "results"), "--output", str(pages[3]), "-n", "20"], catch_exceptions=False
    )
    assert "the first 20 of 24" in seen.stdout
    assert all(page.stat().st_size for page in pages)

"""`agent-gym train` at the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_gym.cli.main import build_app, main
from tests.cli.command import ROOT, agent_gym, assert_one_line_error, environment
from tests.trainers.runs import SMALL
from tests.trainers.toys import tiny_policy
from trainers.settings.algorithm import ALGORITHMS
from trainers.settings.reading import preset_names, read_preset, read_settings, resolve_config

WITHOUT_TORCH = """
import sys
sys.argv = ["agent-gym", *{arguments!r}]
from agent_gym.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = sorted(set(sys.modules) & {{"torch", "transformers", "peft"}})
print("HEAVY", heavy)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["train", "--preset", "quickstart", "--show"]]
)
def test_help_and_show_answer_without_importing_torch(arguments: list[str]) -> None:
    code = WITHOUT_TORCH.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout.rstrip().endswith("HEAVY []"), done.stdout[-300:] + done.stderr[-2000:]


def test_the_help_explains_itself_by_examples() -> None:
    text = agent_gym("train", "--help").stdout
    for part in ("agent-gym train --preset quickstart", "--resume", "--show", "Ctrl-C"):
        assert part in text


def test_show_prints_the_resolved_settings_and_makes_nothing(tmp_path: Path) -> None:
    done = agent_gym(
        *("train", "--preset", "quickstart", "--algorithm", "grpo", "--seed", "3"),
        *("optim.learning_rate=1e-4", "--show"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    config = resolve_config(json.loads(done.stdout))
    assert (config.seed, config.algorithm_name, config.optim.learning_rate) == (3, "grpo", 1e-4)
    assert config.algorithm == ALGORITHMS["grpo"]
    assert list(tmp_path.iterdir()) == []


def test_shown_settings_are_a_settings_file(tmp_path: Path) -> None:
    shown = CliRunner().invoke(build_app(), ["train", "--preset", "alfworld-tiny", "--show"]).output
    (tmp_path / "run.json").write_text(shown, encoding="utf-8")
    assert resolve_config(read_settings(tmp_path / "run.json")) == resolve_config(read_preset("alfworld-tiny"))


def test_the_list_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (80, 132):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = CliRunner().invoke(build_app(), ["train", "--list"]).output.splitlines()
        assert width - 20 < max(map(len, lines)) < width


def test_settings_that_are_not_text_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe\x00iterations")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"iterations": 3,')
    for arguments, part in (
        (["train", "--config", str(tmp_path / "a.toml")], "a.toml is not text in UTF-8"),
        (["report", str(run)], "config.json is damaged"),
        (["train", "--resume", str(run)], "config.json is not valid JSON"),
    ):
        monkeypatch.setattr(sys, "argv", ["agent-gym", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        done = subprocess.CompletedProcess(arguments, 2, "", capsys.readouterr().err)
        assert end.value.code == 2
        assert_one_line_error(done, part)


def test_list_names_every_preset_and_algorithm() -> None:
    text = agent_gym("train", "--list").stdout
    for name in (*preset_names(), *ALGORITHMS):
        assert name in text


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--preset", "quickstrat"], ["quickstrat", "Did you mean 'quickstart'"]),
        (["--preset", "quickstart", "rollout.group=3"], ["rollout.group", "groups"]),
        (["--preset", "quickstart", "--algorithm", "sampoo"], ["sampoo", "sampo"]),
        (["--preset", "quickstart", "--config", "a.toml"], ["not both"]),
        ([], ["--preset or --config", "--list"]),
        (["--preset", "quickstart", "--algorithm", "GRPO"], ["Did you mean 'grpo'"]),
        (["--config", "missing.toml"], ["missing.toml", "--show > missing.json"]),
        (["--resume", "nowhere"], ["nowhere", "no run folder"]),
        (["--resume", "runs/a", "--preset", "quickstart"], ["--resume", "--preset"]),
        (["--resume", "runs/a", "--seed", "1"], ["seed=1", "iterations, run.checkpoint_every"]),
        (["--resume", "runs/a", "iterations=3", "run.threads=2"], ["run.threads=2", "iterations"]),
        (["--resume", "runs/a", "iterations=3"], ["runs/a", "no run folder"]),
        (["--preset", "quickstart", "--env", "Sokobann-v0"], ["Sokobann-v0", "Sokoban-v0"]),
        (["--preset", "quickstart", "env.options.sice=3"], ["'sice'", "'size'"]),
        (["--preset", "quickstart", "env.prompt=nope"], ["nope", "compact"]),
        (["--preset", "quickstart", "--device", "cuda:99"], ["cuda:99"]),
        (["--preset", "quickstart", "--model", "/nope"], ["no folder /nope", "model.path"]),
        (["--preset", "quickstart", "--model", "nobody/nope"], ["nobody/nope", "model.allow_downloads=true"]),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str],
    parts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["agent-gym", "train", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert list(tmp_path.iterdir()) == []
    shown = capsys.readouterr().err
    assert_one_line_error(subprocess.CompletedProcess(arguments, end.value.code, "", shown), *parts)  # type: ignore[arg-type]


OFFLINE = """
import os, socket, sys
os.environ.pop("HF_HUB_OFFLINE", None)

def refuse(*arguments, **options):
    os.write(2, f"looked up {arguments[:2]}\\n".encode())
    raise OSError("no network")

socket.getaddrinfo = socket.socket.connect = refuse
sys.argv = ["agent-gym", *sys.argv[1:]]
from agent_gym.cli.main import main
main()
"""


def offline(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `agent-gym` where every look-up of an address is told on standard error."""
    return subprocess.run(
        [sys.executable, "-c", OFFLINE, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_preset_whose_model_is_missing_says_how_to_make_it_and_asks_no_hub(tmp_path: Path) -> None:
    done = offline("train", "--preset", "smollm-sokoban", cwd=tmp_path)
    assert_one_line_error(done, "no folder models/smollm2", "python -m benchmarks.measure.smollm models/smollm2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_model_in_a_folder_is_trained_with_adapters_and_resumed_without_asking_a_hub(tmp_path: Path) -> None:
    tiny_policy().save(tmp_path / "model")
    settings = {**SMALL, "model": {"path": "model", "lora": {"rank": 2}}, "iterations": 0}
    (tmp_path / "small.json").write_text(json.dumps(settings))
    fewer = ("cloning.episodes=2", "cloning.epochs=1", "evaluation.episodes=1", "rollout.max_context_tokens=2000")
    for command in (("--config", "small.json", "--output", "run", *fewer), ("--resume", "run")):
        done = offline("train", *command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "looked up" not in done.stderr


def test_an_existing_run_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("kept")
    done = agent_gym("train", "--preset", "quickstart", "--output", "run", cwd=tmp_path)
    assert_one_line_error(done, "run", "not empty", "--resume", "--output")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_a_run_that_failed_before_it_began_does_not_block_its_folder(tmp_path: Path) -> None:
    settings = tmp_path / "small.json"
    settings.write_text(json.dumps({**SMALL, "iterations": 0}))
    command = ("train", "--config", str(settings), "--output", str(tmp_path / "run"))
    assert_one_line_error(agent_gym(*command, "--env", "Sokobann-v0"), "Sokobann-v0")
    done = agent_gym(*command)
    assert done.returncode == 0, done.stderr
    assert "Run folder" in done.stderr
    assert_one_line_error(agent_gym(*command), "not empty")

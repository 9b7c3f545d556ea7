"""The result file of an evaluation: one process writes it at a time, and only the same evaluation goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agent_gym.support.errors import ConfigError
from agent_gym.support.files import unwritable
from agent_gym.support.locks import exclusive
from benchmarks.evaluation.plan import EvalConfig


@contextmanager
def exclusive_output(config: EvalConfig) -> Iterator[None]:
    """Keep other processes from the result file while an evaluation writes it.

    Raises:
        BusyError: Another process evaluates into it.
        ConfigError: The file exists and `resume` is not set.
        DataError: The place cannot be written to.
    """
    if config.output is None:
        yield
        return
    output = config.output
    with ExitStack() as stack:
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            lock = output.with_name(f".{output.name}.lock")
            remedy = "wait for it, or give another --output"
            stack.enter_context(exclusive(lock, f"{output} is being written", remedy))
        except OSError as error:
            raise unwritable(output, error) from error
        refuse_overwrite(config)
        yield


def refuse_overwrite(config: EvalConfig) -> None:
    """Check that nothing is at the output, unless an evaluation goes on.

    Raises:
        ConfigError: Something is.
    """
    output = config.output
    if output is None:
        return
    if output.is_dir():
        raise ConfigError(f"{output} is a folder; --output takes a file, such as {output / 'NAME.json'}")
    if config.resume:
        return
    for path in (output, config.episodes_path):
        if path is not None and path.exists():
            raise ConfigError(
                f"{path} exists; continue that evaluation with --resume, or give another --output "
                "(remove the file to start over)"
            )


def require_same(earlier: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Check that a result is of the evaluation that goes on.

    Raises:
        ConfigError: It is not; the message names the field that differs.
    """
    for name, value in now.items():
        if earlier.get(name) == value:
            continue
        field, before, after = _difference(name, earlier.get(name), value)
        raise ConfigError(
            f"{path} is of another evaluation: its {field} is {_shown(before)}, but {_shown(after)} is asked for; "
            "give another --output"
        )


def _difference(name: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """Return the first differing field below a value, with what it was and is."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return name, before, after
    for key in dict.fromkeys([*after, *before]):
        if before.get(key) != after.get(key) or (key in before) != (key in after):
            inner = _difference(str(key), before.get(key), after.get(key))
            return f"{name} {inner[0]}", inner[1], inner[2]
    return name, before, after


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value) if isinstance(value, str) else str(value)

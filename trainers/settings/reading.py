"""Where the settings of a run come from: presets, files, overrides, and messages about what is wrong in them.

A preset or a file (TOML or JSON) gives some fields, the command line overrides any of them with
`section.field=value`, defaults fill the rest. The resolved settings are written into the run folder, so that a
run can be repeated and two runs can be compared field by field.

`algorithm` holds the name of a row of `trainers.settings.algorithm.ALGORITHMS` under `name`; its other fields
override that row.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from agent_gym.support.errors import ConfigError, suggest
from agent_gym.terminal.options import read_value
from trainers.settings.algorithm import get_algorithm
from trainers.settings.run import TrainConfig

PRESETS = Path(__file__).parent / "presets"

_ADAPTER = TypeAdapter(TrainConfig)


def resolve_config(values: Mapping[str, Any]) -> TrainConfig:
    """Return checked settings from nested mappings.

    Args:
        values: Sections and fields; `algorithm` may be a row's name or a table with `name` and overrides.

    Raises:
        ConfigError: A field is unknown or its value is not allowed; every problem is listed.
    """
    values = dict(values)
    algorithm = values.get("algorithm", values.get("algorithm_name", "sampo"))
    overrides = dict(algorithm) if isinstance(algorithm, Mapping) else {"name": algorithm}
    name = overrides.pop("name", values.get("algorithm_name", "sampo"))
    if not isinstance(name, str):
        raise ConfigError(f"algorithm must be the name of a row or a table of settings, got {name!r}")
    row = dataclasses.asdict(get_algorithm(name))
    unknown = [key for key in overrides if key not in row]
    if unknown:
        raise ConfigError(f"algorithm has no field {unknown[0]!r}.{suggest(unknown[0], row)}")
    for key, value in overrides.items():  # a group of settings keeps what the override does not name
        if isinstance(value, Mapping) and isinstance(row[key], Mapping):
            overrides[key] = {**row[key], **value}
    values["algorithm"] = {**row, **overrides}
    values["algorithm_name"] = name
    run = values.get("run")
    if isinstance(run, Mapping) and isinstance(run.get("stop_on"), str):
        values["run"] = {**run, "stop_on": [part.strip() for part in run["stop_on"].split(",") if part.strip()]}
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        raise ConfigError("; ".join(_problem(item) for item in error.errors())) from None


def _problem(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        known = _fields_at(item["loc"][:-1])
        return f"no setting {where!r}.{suggest(str(item['loc'][-1]), known)} Known here: {', '.join(known)}"
    text = str(item.get("ctx", {}).get("error", item["msg"]))
    if not where:
        return text
    if isinstance(item["input"], dict):  # a section that refuses itself names the setting first
        named = re.match(r"\w*", text)
        return f"{where}{'.' if named and named[0] in _fields_at(item['loc']) else ': '}{text}"
    return f"{where}: {text} (got {item['input']!r})"


def _fields_at(path: Iterable[Any]) -> list[str]:
    """Return the settings that the section at a path has, groups that are None by default included."""
    kind: Any = TrainConfig
    for part in path:
        if isinstance(part, int):  # a place in a list, whose hint has led to the class of its entries
            continue
        kind = _section(get_type_hints(kind).get(str(part)))
        if kind is None:
            return []
    return [item.name for item in dataclasses.fields(kind)]


def _section(hint: Any) -> Any:
    """Return the settings class that a type hint names, alone, or None, or in a list; None when there is none."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next((found for found in map(_section, get_args(hint)) if found is not None), None)


def parse_override(text: str) -> tuple[list[str], Any]:
    """Split `section.field=value`; the value is read as JSON if it is JSON, else as text.

    Raises:
        ConfigError: There is no `=`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"an override has the form section.field=value, got {text!r}")
    return name.strip().split("."), read_value(value)


def merge(base: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return `base` with `section.field=value` overrides applied."""
    merged: dict[str, Any] = json.loads(json.dumps(base))
    if isinstance(merged.get("algorithm"), str):
        merged["algorithm"] = {"name": merged["algorithm"]}
    for text in overrides:
        path, value = parse_override(text)
        if path == ["algorithm"]:
            value = {"name": value}  # the row as it is: overrides of another row would not fit it
        here = merged
        for part in path[:-1]:
            if here.get(part) is None:  # a section that is off by default, such as model.lora
                here[part] = {}
            here = here[part]
            if not isinstance(here, dict):
                raise ConfigError(f"{'.'.join(path)}: {part!r} is a value, not a section")
        here[path[-1]] = value
    return merged


def preset_names() -> list[str]:
    """Return the names of the bundled presets."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def read_preset(name: str) -> dict[str, Any]:
    """Return the values of a bundled preset.

    Raises:
        ConfigError: There is no such preset.
    """
    path = PRESETS / f"{name}.toml"
    if "/" in name or not path.is_file():
        names = preset_names()
        raise ConfigError(f"no preset {name!r}.{suggest(name, names)} Presets: {', '.join(names)}")
    return read_settings(path)


def read_settings(path: str | Path) -> dict[str, Any]:
    """Return the values of a TOML or JSON file.

    Raises:
        ConfigError: The file is missing or is neither.
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(
            f"{path} is a folder; give a file of settings (TOML or JSON), such as {path / 'run.json'}"
        )
    if not path.is_file():
        wanted = path.with_suffix(".json")
        raise ConfigError(
            f"no settings file at {path}; `agent-gym train --preset quickstart --show > {wanted}` writes one to "
            f"start from, for --config {wanted}"
        )
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise ConfigError(f"{path} is not text in UTF-8: {error}") from None
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"{path} is not valid {kind}: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold sections of settings, got {type(values).__name__}")
    return values


def to_values(config: TrainConfig) -> dict[str, Any]:
    """Return the settings as JSON-able nested dicts; `resolve_config` reads them back equal."""
    values: dict[str, Any] = _ADAPTER.dump_python(config, mode="json")
    return values

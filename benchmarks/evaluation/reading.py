"""Checks of what a result file holds: a reader names the file and the field that is not what it should be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from agent_gym.support.errors import DataError

Kinds = tuple[type, ...]

_HEADER: Mapping[str, Kinds] = {
    "env_id": (str,),
    "env_kwargs": (dict,),
    "split": (str,),
    "tasks": (dict,),
    "seeds": (list,),
    "max_turns": (int, NoneType),
    "agent": (dict,),
}
_DETAILS: Mapping[str, Kinds] = {"wall_seconds": (float,), "spent": (dict,)}
_NAMES: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    NoneType: "null",
}
_SHOWN = 40  # characters of a wrong value in an error


def json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one of a file that is missing or holds something else."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def read_field(values: Mapping[str, Any], name: str, kinds: Kinds, where: str) -> Any:
    """Return a field of a JSON object.

    Args:
        values: The object.
        name: The field.
        kinds: Types that it may have, as JSON has them; float takes whole numbers too.
        where: The file and what the object is in it; begins the error's message.

    Raises:
        DataError: The field is missing, or of another type.
    """
    wanted = " or ".join(_NAMES[kind] for kind in kinds)
    if name not in values:
        raise DataError(f"{where}: {name} is missing; expected {wanted}")
    value = values[name]
    if not any(_is(value, kind) for kind in kinds):
        text = json.dumps(value, ensure_ascii=False)
        raise DataError(
            f"{where}: {name} must be {wanted}, got {text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}"
        )
    return value


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def read_rows(values: Mapping[str, Any], row: type, path: Path) -> list[dict[str, Any]]:
    """Return the arguments of the rows of a result file.

    Args:
        values: What the file holds.
        row: Dataclass of a row; fields that it does not know are left out.
        path: The file.

    Raises:
        DataError: The rows are no list of objects with the fields of a row.
    """
    hints = get_type_hints(row)
    kinds = {item.name: get_args(hints[item.name]) or (hints[item.name],) for item in fields(row)}
    needed = {item.name for item in fields(row) if item.default is MISSING}
    found = []
    for number, given in enumerate(read_field(values, "episodes", (list,), str(path)), 1):
        where = f"{path}, episode {number}"
        if not isinstance(given, dict):
            raise DataError(f"{where}: expected an object, got {json.dumps(given, ensure_ascii=False)[:_SHOWN]}")
        names = [name for name in kinds if name in given or name in needed]
        found.append({name: read_field(given, name, kinds[name], where) for name in names})
    return found


def read_fields(values: Mapping[str, Any], listed: str, path: Path) -> dict[str, Any]:
    """Return the header or the details of a result file.

    Args:
        values: What the file holds.
        listed: The field that lists their names.
        path: The file.

    Raises:
        DataError: One is missing, or of another type.
    """
    where = str(path)
    known = {**_HEADER, **_DETAILS}
    found: dict[str, Any] = {}
    for name in read_field(values, listed, (list,), where):
        if not isinstance(name, str):
            raise DataError(f"{where}: {listed} must hold names, got {name!r}")
        kinds = known.get(name)
        if kinds is None and name not in values:
            raise DataError(f"{where}: {name} is missing, which {listed} names")
        found[name] = values[name] if kinds is None else read_field(values, name, kinds, where)
    if "tasks" in found:
        read_field(found["tasks"], "count", (int,), f"{where}, tasks")
        read_field(found["tasks"], "digest", (str,), f"{where}, tasks")
    if "agent" in found:
        read_field(found["agent"], "spec", (str,), f"{where}, agent")
    _check_all(found.get("seeds", ()), int, f"{where}: seeds")
    for name, value in found.get("spent", {}).items():
        if isinstance(value, dict):
            _check_all(list(value.values()), int, f"{where}, spent: {name}")
        else:
            read_field(found["spent"], name, (float, NoneType), f"{where}, spent")
    return found


def _check_all(values: Sequence[Any], kind: type, what: str) -> None:
    for value in values:
        if not _is(value, kind):
            raise DataError(f"{what} must hold {_NAMES[kind].removeprefix('a ')}s, got {value!r}")

"""Whether values that a user typed fit the arguments that they are meant for, by the arguments' annotations.

A command line, a settings file or a program can give any argument of an environment anything. Without this, a word
in place of a number fails somewhere inside. What is no plain data (a task set, a retriever) is let through.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, Union, get_args, get_origin, get_type_hints

from agent_gym.support.errors import AgentGymError, ConfigError

Given = ParamSpec("Given")

_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))
_LISTS = (list, tuple, Sequence, Collection, Iterable)
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
_PLURALS = {int: "whole numbers", float: "numbers", Path: "paths"}


def check_arguments(
    owner: str, creator: Callable[..., Any], values: Mapping[str, Any], *, typed: bool = True
) -> dict[str, Any]:
    """Return the values, numbers as text where only text fits.

    Args:
        owner: Name of what takes the arguments, for the message.
        creator: Class or function that takes them.
        values: Arguments by name; names that it does not have are left alone.
        typed: Whether a person typed them, so that a number may have been meant as text.

    Raises:
        ConfigError: A value does not fit; the message says what does.
    """
    hints = _hints(creator)
    return {name: _fitted(owner, name, value, hints.get(name, Any), typed) for name, value in values.items()}


def checked(init: Callable[Given, None]) -> Callable[Given, None]:
    """Let an `__init__` that fails say which keyword argument does not fit its annotation, where that is so.

    Nothing is checked before: the errors of the package that `__init__` itself raises say more, and pass.
    """

    @wraps(init)
    def explaining(*args: Given.args, **values: Given.kwargs) -> None:
        try:
            init(*args, **values)
        except AgentGymError:
            raise
        except Exception:
            check_arguments(type(args[0]).__name__, init, values, typed=False)
            raise

    return explaining


@lru_cache(maxsize=256)
def _hints(creator: Callable[..., Any]) -> dict[str, Any]:
    """Return what annotations say, which takes as long to find out as making a small environment."""
    try:
        return get_type_hints(creator.__init__ if isinstance(creator, type) else creator)  # type: ignore[misc]
    except (NameError, TypeError, AttributeError):
        return {}  # annotations that only a type checker can read


def _fitted(owner: str, name: str, value: Any, hint: Any, typed: bool) -> Any:
    if _fits(value, hint):
        return value
    if typed and isinstance(value, int | float) and not isinstance(value, bool) and _fits(str(value), hint):
        return str(value)  # `text=0.3` on a command line was read as a number
    raise ConfigError(f"{owner}: {name} must be {_described(hint)}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any or not isinstance(value, _PLAIN):
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, branch) for branch in inner)
    if hint in (None, type(None)):
        return value is None
    if origin is tuple and inner[-1] is not Ellipsis:
        if not isinstance(value, list | tuple) or len(value) != len(inner):
            return False
        return all(_fits(item, branch) for item, branch in zip(value, inner, strict=True))
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping)
    if kind in _LISTS:
        return isinstance(value, list | tuple) and all(_fits(item, inner[0] if inner else Any) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is Path:
        return isinstance(value, str)
    if kind is object or issubclass(kind, Enum) or getattr(kind, "_is_protocol", False):
        return True  # the environment itself turns names into members
    return isinstance(value, kind)


def _described(hint: Any) -> str:
    """Return what an annotation allows in words that also hold on a command line."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        plain = [branch for branch in inner if branch is not type(None) and _typed(branch)]
        texts = list(dict.fromkeys(_described(branch) for branch in plain))
        return " or ".join([*texts, "none"] if type(None) in inner else texts)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return f"a list of {len(inner)} ({', '.join(_described(item) for item in inner)})"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a table of names and values"
    if origin in _LISTS:
        return f"a list of {_PLURALS.get(inner[0], _described(inner[0]))}" if inner else "a list"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def _typed(hint: Any) -> bool:
    """Return whether a person can type a value of this kind."""
    origin = get_origin(hint) or hint
    return hint in _NAMES or origin in _LISTS or (isinstance(origin, type) and issubclass(origin, Mapping))

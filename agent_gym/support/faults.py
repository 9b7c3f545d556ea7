"""Exceptions of somebody else's code told in one line, with the place in that code where they arose."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from traceback import FrameSummary, extract_tb
from typing import Any

import gymnasium

_SUPPORT = Path(__file__).parent
_PACKAGE = _SUPPORT.parent
_PASSING_ON = (
    _SUPPORT,
    _PACKAGE / "core",
    _PACKAGE / "play",
    Path(gymnasium.__file__).parent,
)  # frames of these hand calls on
_LIBRARIES = tuple(Path(path) for path in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def told(error: BaseException) -> str:
    """Return an exception's type and message, and file and line of the innermost frame in a user's own code.

    Where no frame is in such code (a fault of a bundled environment), it is the innermost one outside the core.
    """
    if isinstance(error, SyntaxError):
        place = f" ({shown_place(error.filename, error.lineno or 0)})" if error.filename else ""
        return f"{type(error).__name__}: {error.msg}{place}"
    text = " ".join(line.strip() for line in str(error).splitlines())
    frame = _frame(error)
    place = f" ({shown_place(frame.filename, frame.lineno or 0)}, in {frame.name})" if frame else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def place_of(function: Callable[..., Any]) -> str:
    """Return file and line where a function is defined, "" where that is not known."""
    code = getattr(function, "__code__", None)
    return "" if code is None else shown_place(code.co_filename, code.co_firstlineno)


def shown_place(file: str, line: int) -> str:
    """Return `file:line`, the file relative to the current folder where it is in it."""
    path = Path(file)
    with suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line}"


def _frame(error: BaseException) -> FrameSummary | None:
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    for others in ((_PACKAGE, *_LIBRARIES), _PASSING_ON):
        for frame in reversed(frames):
            if not any(Path(frame.filename).is_relative_to(folder) for folder in others):
                return frame
    return None

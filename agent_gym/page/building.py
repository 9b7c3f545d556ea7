"""Rendering and writing of pages."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from agent_gym._version import __version__

_FOLDER = Path(__file__).parent
_ESCAPES = {ord("&"): "\\u0026", ord("<"): "\\u003c", ord(">"): "\\u003e", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def page_environment(folder: Path, filters: Mapping[str, Callable[..., Any]] | None = None) -> jinja2.Environment:
    """Return the template environment of a page: escaping, strict, with the filters that pages share.

    Filters: `number` (a format, a proper minus, a dash for what is unknown) and `share` (per cent).

    Args:
        folder: Folder of the page's own templates and files.
        filters: Further filters.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "share": share, **(filters or {})}
    environment.globals |= {
        "version": __version__,
        "base_style": page_file(_FOLDER / "base.css"),
        "theme_script": page_file(_FOLDER / "theme.js"),
    }
    return environment


def page_file(path: Path) -> Markup:
    """Return one of the package's own style or script files, to stand in a page as it is."""
    return Markup(path.read_text(encoding="utf-8"))


def embedded(value: Any) -> Markup:
    """Return JSON that may stand inside a script element, whatever texts it holds.

    Raises:
        ValueError: A number is not finite.
    """
    return Markup(_json(value).translate(_ESCAPES))


def packed(value: Any) -> str:
    """Return JSON as gzip in base 64: letters, digits, `+`, `/` and `=` only, so that it can stand anywhere.

    Equal values give equal text.

    Raises:
        ValueError: A number is not finite.
    """
    return base64.b64encode(gzip.compress(_json(value).encode("utf-8", "surrogatepass"), 6, mtime=0)).decode(
        "ascii"
    )


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8 form, its escape has
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text


def number(value: float | None, form: str = ".3g") -> str:
    """Return a number for people; "–" for None and what is not finite."""
    return "–" if value is None or not math.isfinite(value) else format(value, form).replace("-", "−")


def share(value: float | None) -> str:
    """Return a share in per cent."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.1%}".replace("%", " %")

"""What the site and the browser need beyond the base install, and messages that name what is missing."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agent_gym.support.errors import ConfigError

CHROMIUM_VARIABLE: Final = "AGENT_GYM_CHROMIUM"
"""Environment variable with the browser's path, where it is not on the PATH."""
DRIVER_VARIABLE: Final = "AGENT_GYM_CHROMEDRIVER"
"""Environment variable with the driver's path."""
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_DRIVERS: Final = ("chromedriver", "chromium.chromedriver")
_EXTRA: Final = "the extra [webshop] is not installed: pip install 'agent-gym[webshop]'"
_SITE_PACKAGES: Final = ("starlette", "uvicorn")
_PACKAGES: Final = (*_SITE_PACKAGES, "selenium", "PIL")


def missing_tools() -> str:
    """Return what is missing to drive a browser, with the remedy; "" when nothing is."""
    if not all(map(find_spec, _PACKAGES)):
        return _EXTRA
    for tool, found, variable, known in (
        ("Chromium", find_browser(), CHROMIUM_VARIABLE, _BROWSERS),
        ("chromedriver", find_driver(), DRIVER_VARIABLE, _DRIVERS),
    ):
        if found is None:
            return (
                f"{tool} is not installed (looked for {', '.join(known)} on the PATH): apt-get install chromium "
                f"chromium-driver, or set {variable} to its path"
            )
    return ""


def require_tools() -> None:
    """Raise ConfigError when something is missing to drive a browser."""
    missing = missing_tools()
    if missing:
        raise ConfigError(f"WebShopBrowser-v0 needs a browser, but {missing}")


def require_site() -> None:
    """Raise ConfigError when something is missing to serve the site."""
    if not all(map(find_spec, _SITE_PACKAGES)):
        raise ConfigError(f"the shop's site cannot be served: {_EXTRA}")


def find_browser() -> str | None:
    """Return the path of Chromium, None where there is none."""
    return _find(CHROMIUM_VARIABLE, _BROWSERS)


def find_driver() -> str | None:
    """Return the path of chromedriver, None where there is none."""
    return _find(DRIVER_VARIABLE, _DRIVERS)


def _find(variable: str, names: tuple[str, ...]) -> str | None:
    given = os.environ.get(variable)
    if given:
        return given if Path(given).is_file() else None
    return next((path for path in map(shutil.which, names) if path), None)

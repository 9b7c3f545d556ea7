"""The library that draws."""

from __future__ import annotations

from typing import Any

from agent_gym.support.errors import ConfigError


def load_pyplot() -> Any:
    """Return matplotlib's pyplot, set to draw into files.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError('the figure needs matplotlib: pip install "agent-gym[bench]"') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot

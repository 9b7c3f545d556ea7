"""Where modules are looked for: what is installed comes before the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import agent_gym


def working_directory_last() -> None:
    """Look for modules in the working directory last.

    `python -m` and `torchrun -m` put it first, where a folder `trainers` or `benchmarks` of a user's would take the
    place of this installation's. Modules that are named on the command line (`--env module:id`) are still found
    there. Worker processes take over the order. In a checkout of this repository nothing changes: the packages are
    in the working directory themselves.
    """
    try:
        here = os.getcwd()
    except OSError:  # it has been removed
        return
    own = Path(agent_gym.__file__).resolve().parents[1]
    if own == Path(here).resolve():
        return
    if sys.path and sys.path[0] in ("", here):
        del sys.path[0]
    if here not in sys.path:
        sys.path.append(here)

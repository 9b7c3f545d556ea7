"""Tells Docker whether a container does its work; exit status 0 says yes.

`HEALTHCHECK_URL` names an address that has to answer with 200. `HEALTHCHECK_FILE` names a file that has to have
changed within `HEALTHCHECK_SECONDS` (1800); several are matched by a pattern, and the newest counts. Without
either, the command has to start.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
import urllib.request


def healthy() -> str:
    """Return "" or what is wrong."""
    url = os.environ.get("HEALTHCHECK_URL")
    if url:
        with urllib.request.urlopen(url, timeout=4) as answer:
            return "" if answer.status == 200 else f"{url} answers {answer.status}"
    pattern = os.environ.get("HEALTHCHECK_FILE")
    if pattern:
        limit = float(os.environ.get("HEALTHCHECK_SECONDS", "1800"))
        ages = [time.time() - os.path.getmtime(path) for path in glob.glob(pattern)]
        if not ages:
            return f"no file {pattern} yet"
        return "" if min(ages) <= limit else f"{pattern} has not changed for {min(ages):.0f} seconds"
    return (
        ""
        if subprocess.run(["agent-gym", "--version"], stdout=subprocess.DEVNULL).returncode == 0
        else "no command"
    )


if __name__ == "__main__":
    try:
        problem = healthy()
    except OSError as error:
        problem = str(error)
    if problem:
        print(problem)
        sys.exit(1)

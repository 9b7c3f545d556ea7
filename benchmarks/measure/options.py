"""Options that several `agent-gym bench` commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FiguresOutput = Annotated[Path | None, typer.Option("--output", help="Write the figures as JSON.")]
"""Where the figures of a measurement go."""

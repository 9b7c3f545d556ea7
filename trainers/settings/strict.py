"""How sections of settings are read."""

from __future__ import annotations

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid")
"""How pydantic reads a section: a field that it does not have is an error."""

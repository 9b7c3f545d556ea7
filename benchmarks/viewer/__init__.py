"""`agent-gym view`: recorded episodes as one self-contained HTML page."""

from benchmarks.viewer.page import write_view
from benchmarks.viewer.records import ViewOptions

__all__ = ["ViewOptions", "write_view"]

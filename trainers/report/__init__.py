"""One self-contained page about a run, or about several beside one another.

`data` reads run folders, `charts` says which metrics are drawn together, `page` renders. Nothing here imports
torch, so that a page can be made wherever the run folder is.
"""

from trainers.report.page import write_report

__all__ = ["write_report"]

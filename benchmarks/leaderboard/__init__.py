"""Results of several agents side by side, one table for each list of tasks.

`entries` reads results, `board` puts those of one task list together and compares them task by task, `compact`
keeps a board in a small file, `show` and `page` present it.
"""

from benchmarks.leaderboard.board import Board, Comparison, Row, Section, make_board
from benchmarks.leaderboard.compact import read_board_file, write_board_file
from benchmarks.leaderboard.entries import Contest, Entry, Figures, Outcome, read_entries

__all__ = [
    "Board",
    "Comparison",
    "Contest",
    "Entry",
    "Figures",
    "Outcome",
    "Row",
    "Section",
    "make_board",
    "read_board_file",
    "read_entries",
    "write_board_file",
]

"""Tables on terminals of any width: every id and every number is there whole."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType

from benchmarks.evaluation.leaderboard.board import make_board
from benchmarks.evaluation.leaderboard.entries import Entry
from benchmarks.evaluation.leaderboard.show import terminal_overview, terminal_tables
from benchmarks.evaluation.show import result_table
from benchmarks.evaluation.suites.suite import bundled_suites, load_suite
from benchmarks.evaluation.tables import fitted
from tests.benchmarks.evaluation.boards import Played

KINDS = ("6x6-1", "look_at_obj_in_light")
PLAYED = [Played([1, 1, 1, 0] * 5, kinds=KINDS), Played([0, 1, 0, None] * 5, agent="hf:m", kinds=KINDS)]


def shown(table: RenderableType, width: int) -> str:
    file = StringIO()
    Console(file=file, width=width).print(table)
    text = file.getvalue()
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    return text


@pytest.mark.parametrize("width", [120, 80, 40, 30])
def test_no_number_of_a_leaderboard_or_a_result_is_cut(width: int) -> None:
    board = make_board([Entry.of(played.result()) for played in PLAYED])
    for text in (shown(terminal_tables(board, width)[0], width), shown(terminal_overview(board, width), width)):
        for number in ("0.750", "0.333", "[0.53, 0.89]", "oracle", "hf:m"):
            assert number in text
    text = shown(result_table(PLAYED[1].result(), width), width)
    for number in ("0.333 ", "0.152 to 0.583", "15 of 20", "look_at_obj_in_light"):
        assert number in text


def test_of_no_episode_there_is_no_rate() -> None:
    text = shown(result_table(Played([None] * 3).result(), 80), 80)
    assert "unknown" in text
    assert "0 of 3" in text
    assert "0.0" not in text


@pytest.mark.parametrize("width", [100, 80, 40])
def test_ids_are_whole_where_they_fit_and_go_on_in_the_next_line_where_not(width: int) -> None:
    lines = [(part.name, part.env, part.split) for name in bundled_suites() for part in load_suite(name).parts]
    text = shown(fitted(("part", "environment", "split"), lines, width, left=(0, 1), free=()), width)
    for part, environment, split in lines:
        assert part in text
        assert environment in text
        assert split in text
    name = "run:" + "a-long-name-of-a-run-" * 8
    rows = [(name, f"{number}.125") for number in range(3)]
    text = shown(fitted(("agent", "success"), rows, width), width)
    assert "".join(text.split()).count("2.125") == 1
    assert text.count("-") == 3 * name.count("-")


def test_cells_are_plain_text() -> None:
    for width in (60, 12):
        assert "[red]x" in shown(fitted(("a", "b", "c"), [("[red]x", "1.000", "2.000")], width), width)

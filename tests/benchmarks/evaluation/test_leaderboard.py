"""Leaderboards: one table for each task list, agents compared task by task, small files that compare again."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.core.make import known_ids
from agent_gym.support.errors import ConfigError, DataError
from benchmarks.evaluation.leaderboard.board import make_board, select
from benchmarks.evaluation.leaderboard.compact import read_board_file, write_board_file
from benchmarks.evaluation.leaderboard.entries import Entry, read_entries
from benchmarks.evaluation.leaderboard.page import render_board
from benchmarks.evaluation.leaderboard.show import END, START, columns, markdown, write_markdown
from tests.benchmarks.evaluation.boards import HOSTILE, Played
from tests.browser import WIDTHS, assert_stands_alone, show

RANDOM = Played([0, 1, 0, 0, 1, 0, 0, 0], agent="random")
ORACLE = Played([1, 1, 1, 1, 1, 1, 1, 0])


def entries(*played: Played) -> list[Entry]:
    return [Entry.of(one.result(), f"{one.agent}.json") for one in played]


def test_differences_are_paired_by_task_over_the_tasks_that_both_played() -> None:
    rng = np.random.default_rng(0)
    strong = (rng.random(400) < 0.7).astype(int).tolist()
    weak = [value if number % 10 else 0 for number, value in enumerate(strong)]  # never better
    played = [Played(strong, agent="strong"), Played([None, *weak[1:]], agent="weak")]
    board = make_board(entries(*played))
    best, other = board.sections[0].rows
    assert (best.name, best.comparison, other.name) == ("strong", None, "weak")
    assert other.comparison is not None
    assert other.comparison.common == 399
    assert other.comparison.success.value == pytest.approx(np.mean(np.array(weak[1:]) - np.array(strong[1:])))
    assert other.comparison.success.low < other.comparison.success.value < other.comparison.success.high < 0
    turned = make_board(entries(*played), against="weak").sections[0].rows[0].comparison
    assert turned is not None
    assert turned.success.value == pytest.approx(-other.comparison.success.value)


def test_results_with_errors_come_last_and_are_no_reference_unless_all_have_some() -> None:
    lucky, steady = Played([1, *[None] * 9], agent="lucky"), Played([1] * 9 + [0], agent="steady")
    first, last = make_board(entries(lucky, steady)).sections[0].rows
    assert (first.name, first.comparison, last.name) == ("steady", None, "lucky")
    assert last.comparison is not None
    assert last.comparison.common == 1
    assert make_board(entries(lucky, steady), against="lucky").sections[0].reference == "lucky"
    assert make_board(entries(lucky)).sections[0].reference == "lucky"


def test_no_difference_is_shown_where_two_agents_have_no_task_in_common() -> None:
    board = make_board(entries(Played([1, 1, None, None], agent="a"), Played([None, None, 1, 0], agent="b")))
    assert [row.comparison for row in board.sections[0].rows] == [None, None]
    assert "0.000 to 0.000" not in markdown(board)
    assert "0.000 to 0.000" not in render_board(board)


def test_what_was_not_played_whole_says_so() -> None:
    partly, wholly = Played([1, None, 0, 1], agent="partly"), Played([1, 0, 0, 1], agent="wholly")
    board = make_board(entries(partly, wholly))
    cells = {line.split(" | ")[0]: line.split(" | ")[-1] for line in markdown(board).splitlines()}
    assert (cells["| partly"], cells["| wholly"]) == ("3 of 4, 1 errors |", "4 |")
    assert "; 3 of 4, 1 errors |" in markdown(board, overview_only=True)
    assert render_board(board).count(">incomplete<") == 1
    assert ">2 agents</span><span>1 task list<" in render_board(board)
    assert ">incomplete<" not in render_board(make_board(entries(wholly)))
    heads = columns(board.sections[0], narrow=True)
    assert "episodes" in heads
    assert "episodes" not in columns(make_board(entries(wholly)).sections[0], narrow=True)


def test_rates_of_several_attempts_say_on_how_many_tasks_they_rest_where_not_on_all(tmp_path: Path) -> None:
    result = Played([1, 0, 1], seeds=(0, 1)).result()
    rows = [
        replace(row, error="tool: broke") if row.seed and row.task_id != "gen/0" else row for row in result.rows
    ]
    entry = Entry.of(replace(result, rows=rows))
    board = make_board([entry, Entry.of(Played([1, 0, 1], agent="whole", seeds=(0, 1)).result())])
    assert "| 1.000 / 1.000, 1 task |" in markdown(board)
    assert "| 0.667 / 0.667 |" in markdown(board)
    assert "1.000 / 1.000, 1 task<" in render_board(board)
    again = make_board(read_board_file(write_board_file(board, tmp_path / "board.json")))
    assert markdown(again) == markdown(board)


def test_the_order_of_rows_in_a_result_does_not_matter() -> None:
    result = RANDOM.result()
    turned = type(result)(result.header, result.rows[::-1], result.n_planned, result.details)
    tables = [
        make_board([Entry.of(ORACLE.result()), Entry.of(one)]).sections[0].rows[1].comparison
        for one in (result, turned)
    ]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("change", [{"digest": "f" * 32}, {"max_turns": 30}, {"outcomes": [1, 1, 0]}])
def test_results_over_different_lists_never_share_a_table(change: dict[str, Any]) -> None:
    other = Entry.of(RANDOM.result(**change), "other.json")
    with pytest.raises(
        ConfigError, match=r"oracle\.json has task list 0123.*other\.json has .*--separate"
    ) as caught:
        make_board([*entries(ORACLE), other])
    assert str(other.contest.tasks) in str(caught.value)
    board = make_board([*entries(ORACLE), other], separate=True)
    assert [len(section.rows) for section in board.sections] == [1, 1]


def test_only_what_was_asked_for_is_checked_and_compared(tmp_path: Path) -> None:
    results = [ORACLE, RANDOM, Played([1], split="valid"), Played([1, 1], split="valid")]
    found = entries(*results, Played([1], env_id="agent_gym/Boxoban-v0"))
    with pytest.raises(ConfigError, match="cannot share a table"):
        make_board(select(found))
    assert [row.name for row in make_board(select(found, "sokoban", "test")).sections[0].rows] == [
        "oracle",
        "random",
    ]
    assert len(make_board(select(found, "Boxoban")).sections) == 1
    with pytest.raises(
        ConfigError, match=r"^no results of environment 'foo'; there are: agent_gym/Boxoban-v0, agent_gym/Sok"
    ):
        select(found, "foo")
    with pytest.raises(ConfigError, match=r"^no results of environment 'box' and split 'valid'; there are: test$"):
        select(found, "box", "valid")


def test_other_splits_environments_and_options_are_tables_of_their_own() -> None:
    levels = (("levels", "/home/somebody/boxoban"),)
    board = make_board(
        entries(
            ORACLE, Played([1], split="valid"), Played([1], env_id="agent_gym/Boxoban-v0", options=levels), RANDOM
        )
    )
    names = [(section.contest.name, section.contest.split, len(section.rows)) for section in board.sections]
    assert names == [
        ("Boxoban-v0 (levels=boxoban)", "test", 1),
        ("Sokoban-v0", "test", 2),
        ("Sokoban-v0", "valid", 1),
    ]


def test_the_address_of_a_service_matters_only_where_the_digest_says_nothing_of_what_it_serves() -> None:
    def tables(world: str) -> list[str]:
        played = [
            Played([1, 0], agent=f"a{port}", world=world, options=(("retriever", f"http://10.0.0.1:{port}"),))
            for port in (1, 2)
        ]
        return [section.contest.name for section in make_board(entries(*played)).sections]

    assert tables("f" * 32) == ["Sokoban-v0 (retriever=a service)"]
    assert len(tables("")) == 2


def test_agents_of_one_name_are_told_apart_and_places_of_the_machine_are_left_out() -> None:
    runs = [
        Played([1, 0], agent="run:/home/somebody/runs/mine", identity=(("step", step), ("checksum", str(step))))
        for step in (10, 20)
    ]
    chat = Played([0, 0], agent="openai:org/model@http://10.1.2.3/v1")
    rows = make_board(entries(*runs, chat)).sections[0].rows
    assert [row.name for row in rows] == ["run:mine (step=10)", "run:mine (step=20)", "openai:org/model"]


@given(
    outcomes=st.lists(st.lists(st.sampled_from([0, 1, None]), min_size=4, max_size=4), min_size=1, max_size=4),
    scores=st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
@settings(max_examples=15)
def test_a_leaderboard_file_gives_the_same_comparisons_again(
    outcomes: list[list[int | None]], scores: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("boards") / "board.json"
    played = [Played(row, agent=f"a{number}", scores=scores) for number, row in enumerate(outcomes)]
    board = make_board(entries(*played))
    again = make_board(read_board_file(write_board_file(board, path)))
    assert [row.comparison for row in again.sections[0].rows] == [row.comparison for row in board.sections[0].rows]
    assert [row.entry.outcomes for row in again.sections[0].rows] == [
        row.entry.outcomes for row in board.sections[0].rows
    ]


def test_a_leaderboard_file_is_small_holds_no_task_and_meets_new_results(tmp_path: Path) -> None:
    places = (("url", "http://models.example/v1"), ("prompt", "private/prompts/mine.j2"))
    big = Played([number % 3 > 0 for number in range(1000)], agent="run:private/runs/x", identity=places)
    path = write_board_file(make_board(entries(big, Played([1] * 1000))), tmp_path / "board.json")
    text = path.read_text()
    assert len(text) < 12_000
    assert "gen/" not in text
    assert "private" not in text
    assert "models.example" not in text
    new = Played([0] * 1000, agent="random")
    for name, played in (("big", big), ("new", new)):
        played.result().write(tmp_path / "new" / f"{name}.json")
    found = read_entries([path, tmp_path / "new"])
    rows = make_board(found).sections[0].rows
    assert [row.name for row in rows] == ["oracle", "run:x", "random"]  # the same result twice is one row
    assert rows[2].comparison is not None
    assert rows[2].comparison.success.value == -1.0


def test_markdown_goes_between_the_markers_and_keeps_hostile_names_inside_cells(tmp_path: Path) -> None:
    page = tmp_path / "leaderboard.md"
    page.write_text(f"# Title\n{START}\nold\n{END}\nbelow\n")
    board = make_board(entries(ORACLE, Played([0] * 8, agent="a|b `c` <img src=x>")))
    write_markdown(page, markdown(board))
    text = page.read_text()
    assert text.startswith("# Title\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert "old" not in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "<img" not in text
    (tmp_path / "other.md").write_text("mine")
    with pytest.raises(DataError, match="has not the lines"):
        write_markdown(tmp_path / "other.md", "x")


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def hostile_board() -> str:
    kinds = ("6x6-1", HOSTILE)
    return render_board(
        make_board(
            entries(
                Played([1, 1, 1, 1, 1, 1, 1, 0] * 5, kinds=kinds),
                Played([0, 1, 0, 0, 1, 0, 0, None] * 5, agent=f"hf:{HOSTILE}", kinds=kinds),
                Played([0, 1, 1, 0] * 10, agent="run:runs/with-a-rather-long-name-of-a-run", kinds=kinds),
                Played([0.0, 1.0, 0.0], agent="random", split="valid", scores=[0.5, 1.0, 0.25]),
                Played([1, 0, 1], split="valid", seeds=(0, 1)),
            )
        )
    )


def test_the_page_needs_nothing_but_itself_and_hostile_text_stays_text() -> None:
    tags = Tags(hostile_board()).found
    assert [tag for tag, _ in tags].count("script") == 1
    assert "img" not in [tag for tag, _ in tags]
    for _, attributes in tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert all((attributes.get(name) or "#").startswith(("#", "data:")) for name in ("src", "href"))


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_in_a_browser_fits_and_stands_alone(browser: Any, tmp_path: Path, width: int) -> None:
    page = tmp_path / "board.html"
    page.write_text(hostile_board(), encoding="utf-8")
    show(browser, page, width)
    assert browser.title == "Leaderboard · agent-gym"
    assert len(browser.find_elements("css selector", "section table")) == 4
    assert_stands_alone(browser, width)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"kind": "agent-gym leaderboard", "schema_version": 9}))
    with pytest.raises(DataError, match="schema 9"):
        read_entries([tmp_path / "x.json"])
    with pytest.raises(DataError, match="no result"):
        read_entries([tmp_path / "missing.json"])
    with pytest.raises(ConfigError, match=r"no agent 'orcale'.*Did you mean 'oracle'"):
        make_board(entries(ORACLE), against="orcale")


def test_the_shipped_leaderboard_has_both_bounds_of_every_environment() -> None:
    found = read_board_file(Path(__file__).parents[3] / "docs" / "leaderboard.json")
    for env_id in known_ids():
        splits = {entry.contest.split for entry in found if entry.contest.env_id == env_id}
        assert {"train", "valid", "test"} <= splits, env_id
    for section in make_board(found).sections:
        assert [row.name for row in section.rows] == ["oracle", "random"]
        assert section.rows[0].entry.figures.success.value > 0.85

"""Game files: both text formats, and every way a file can be wrong."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.game import compile_game, load_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat, announce, read_game_file
from agent_gym.support.errors import ConfigError, DataError
from tests.envs.alfworld.tiny import GOALS, content, problem

OLD_DOMAIN = "(define (domain alfred) (:action look))"
NEW_DOMAIN = "(define (domain alfred) (:action look) (:action help))"


def grammar(put: str, sentence: str = "Your task is to: put a mug in desk.") -> str:
    rule = json.dumps({"task": [{"rhs": sentence}]})
    return f'grammar :: """{rule}""";\naction PutObject {{\n    template :: "{put}";\n}}\n'


OLD_PUT, NEW_PUT = "put {o} in/on {r}", "move {o} to {r}"


def file_content(put: str = NEW_PUT, domain: str = NEW_DOMAIN, **changes: Any) -> dict[str, Any]:
    return {"pddl_domain": domain, "grammar": grammar(put), "pddl_problem": problem(), "solvable": True} | changes


def test_the_grammar_tells_the_text_format() -> None:
    assert GameRecord.from_mapping(file_content()).text_format is TextFormat.V04
    assert GameRecord.from_mapping(file_content(OLD_PUT, OLD_DOMAIN)).text_format is TextFormat.V03


def test_an_old_game_can_be_played_in_the_new_format() -> None:
    game = compile_game(GameRecord.from_mapping(file_content(OLD_PUT, OLD_DOMAIN)))
    assert "help" not in GameState(game).admissible()
    assert "help" in GameState(game, TextFormat.V04).admissible()


def test_the_sentence_is_unescaped() -> None:
    text = grammar(NEW_PUT, 'Your task is to: put the "best" café mug away.')
    assert GameRecord.from_mapping(file_content(grammar=text)).task.endswith('the "best" café mug away.')


def test_announce_ends_with_one_full_stop() -> None:
    for sentence in ("Put it there. ", "Put it there", "Your task is to: Put it there"):
        assert announce(sentence) == "Your task is to: Put it there."


def test_unknown_text_format_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"\['0\.3', '0\.4'\], got '0\.5'"):
        TextFormat.parse("0.5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pddl_problem": None}, "'pddl_problem'"),
        ({"grammar": 3}, "'grammar'"),
        ({"grammar": "nothing"}, "neither of the put commands"),
        ({"grammar": grammar(OLD_PUT) + grammar(NEW_PUT)}, "both of the put commands"),
        ({"grammar": grammar(NEW_PUT).replace('"task"', '"chore"')}, 'no "task" rule'),
        ({"pddl_domain": OLD_DOMAIN}, "mixes formats"),
        ({"solvable": "yes"}, "'solvable'"),
        ({"walkthrough": [1]}, "'walkthrough'"),
    ],
)
def test_wrong_content_names_the_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        GameRecord.from_mapping(file_content() | changes)


def test_content_without_grammar_and_task_lists_its_keys() -> None:
    with pytest.raises(DataError, match=r"neither 'grammar' nor 'task'; its keys are \['pddl_problem'\]"):
        GameRecord.from_mapping({"pddl_problem": problem()})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (json.dumps(file_content())[:-20], "not whole JSON"),
        ("", "not whole JSON"),
        ("[1, 2]", "JSON list"),
        ('{"name": "other"}', "'pddl_problem'"),
        ("[" * 1_000_000, "nests JSON values too deeply"),
        ('{"a":' * 500_000, "nests JSON values too deeply"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_bad_file_is_refused_by_name(tmp_path: Path, data: str | bytes, message: str) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(DataError, match=message) as caught:
        read_game_file(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(DataError, match=str(path)):
            load_game(path)


def test_a_hundred_megabyte_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    begin = time.perf_counter()
    with pytest.raises(DataError, match="100,000,000 bytes"):
        load_game(path)
    assert time.perf_counter() - begin < 20


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("(atLocation agent1 loc_bar_1)", "one agent at one location"),
        ("(receptacleAtLocation Desk_bar_a loc_bar_1)", "two locations"),
        ("(holds agent1 Mug_bar_a) (holds agent1 Mug_bar_b)", "2 objects in hand"),
    ],
)
def test_contradicting_facts_are_refused(facts: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        compile_game(GameRecord.from_mapping(content(GOALS["place"], facts)))


json_values = st.recursive(
    st.sampled_from([None, True, 3, "x"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.just("task"), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(["pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough", "task"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, json_values | st.just(problem()) | st.just(grammar(NEW_PUT))))
def test_foreign_objects_compile_or_raise_a_data_error(foreign: dict[str, Any]) -> None:
    with suppress(DataError):
        compile_game(GameRecord.from_mapping(foreign))


def test_real_games_with_damaged_text_compile_or_raise_a_data_error(real_files: list[Path]) -> None:
    rng = random.Random(9)
    outcomes = set()
    for path in real_files[::12]:
        text = path.read_text()
        at, cut = rng.randrange(len(text)), rng.choice([1, 1, 5, 40, 4000])
        try:
            compile_game(GameRecord.from_mapping(json.loads(text[:at] + text[at + cut :], strict=False)))
            outcomes.add("played")
        except (DataError, json.JSONDecodeError) as error:
            outcomes.add(type(error).__name__)
    assert "DataError" in outcomes

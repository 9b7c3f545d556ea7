"""Generated households: reproducible, solvable, disjoint between splits, of the size asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.alfworld.data.export import with_stock_texts
from agent_gym.envs.alfworld.data.generator import TINY, GeneratedSplit, HouseholdSpec, household_from_seed
from agent_gym.envs.alfworld.data.household_data import FURNISHING, FURNITURE, THINGS, Room
from agent_gym.envs.alfworld.data.library import GameLibrary
from agent_gym.envs.alfworld.oracle import plan
from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.game import compile_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat, read_game_file
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.errors import ConfigError, DataError
from tests.envs.alfworld.files import write_game_files
from tests.envs.alfworld.test_gamefile import NEW_DOMAIN, NEW_PUT, grammar

TRAIN = GeneratedSplit.TRAIN


def _state(spec: HouseholdSpec, split: GeneratedSplit, seed: int) -> GameState:
    return GameState(compile_game(GameRecord.from_mapping(household_from_seed(spec, split, seed))))


specs = st.builds(
    HouseholdSpec,
    receptacles=st.integers(3, 40),
    objects=st.integers(2, 40),
    distractors=st.integers(0, 6),
    openable=st.none() | st.floats(0, 1),
    hidden=st.floats(0, 1),
    shared_locations=st.floats(0, 1),
    task_types=st.lists(st.sampled_from(list(TaskType)), max_size=2, unique=True).map(tuple),
)


@settings(max_examples=100, deadline=None)
@given(spec=specs, split=st.sampled_from(list(GeneratedSplit)), seed=st.integers(0, 2**64))
def test_every_household_is_unsolved_at_first_and_solvable(
    spec: HouseholdSpec, split: GeneratedSplit, seed: int
) -> None:
    state = _state(spec, split, seed)
    assert not state.won
    commands = plan(state)
    assert commands
    assert len(commands) <= 50
    for command in commands:
        assert command in state.admissible()
        state.step(command)
    assert state.won


@pytest.mark.parametrize(
    "spec", [TINY, HouseholdSpec(), HouseholdSpec(receptacles=220, objects=430, distractors=20)]
)
def test_the_size_is_the_one_asked_for(spec: HouseholdSpec) -> None:
    game = _state(spec, TRAIN, 5).game
    lamps = game.toggleable.bit_count()
    assert len(game.receptacles) == spec.receptacles
    assert len(game.objects) - lamps == spec.objects + spec.distractors


def test_doors_follow_the_share_asked_for() -> None:
    def doors(share: float) -> float:
        spec = HouseholdSpec(receptacles=40, openable=share, rooms=(Room.KITCHEN,))
        return sum(_state(spec, TRAIN, seed).game.openable.bit_count() for seed in range(10)) / 400

    assert doors(0.0) < 0.15 < 0.4 < doors(0.5) < 0.65 < 0.9 < doors(1.0)


def test_hidden_objects_start_behind_closed_doors() -> None:
    def opened(hidden: float) -> int:
        spec = HouseholdSpec(objects=2, hidden=hidden, task_types=(TaskType.LIGHT,))
        plans = [plan(_state(spec, TRAIN, seed)) or () for seed in range(40)]
        return sum(any(command.startswith("open") for command in commands) for commands in plans)

    assert opened(0.0) < 5 < 20 < opened(1.0)


def test_distractors_are_look_alikes_of_the_task_object() -> None:
    spec = HouseholdSpec(objects=2, distractors=12, task_types=(TaskType.HEAT,))
    for seed in range(10):
        record = household_from_seed(spec, TRAIN, seed)
        kind = THINGS[record["pddl_params"]["object_target"]].kind
        game = compile_game(GameRecord.from_mapping(record))
        named = [name for name, thing in THINGS.items() if thing.kind == kind]
        alike = [i for i in game.objects if any(i.startswith(f"{name.lower()}_bar_") for name in named)]
        assert len(alike) >= 13


def test_all_six_task_types_and_four_rooms_come_up() -> None:
    records = [household_from_seed(TINY, TRAIN, seed) for seed in range(200)]
    assert len(Counter(record["task_type"] for record in records)) == 6
    assert len(Counter(record["scene"] for record in records)) == 4
    sentences = {record["task"].split()[0] for record in records}
    assert sentences == {"put", "clean", "heat", "cool", "find", "examine", "look"}


def test_splits_share_no_content() -> None:
    spec = HouseholdSpec(receptacles=3, objects=2, task_types=(TaskType.PLACE,), rooms=(Room.KITCHEN,), hidden=0.0)
    intros: dict[str, set[tuple[str, ...]]] = {}
    for split in GeneratedSplit:
        for seed in range(150):
            state = _state(spec, split, seed)
            twin = state.copy()
            seen = [state.task, *(twin.step(f"go to {name}") for name in state.vocabulary.receptacles)]
            intros.setdefault(split, set()).add(tuple(sorted(line.split(".", 1)[-1] for line in seen)))
    assert intros["train"].isdisjoint(intros["test"])
    assert intros["train"].isdisjoint(intros["valid"])
    assert intros["valid"].isdisjoint(intros["test"])


def test_seeds_give_distinct_households_and_the_same_ones_again() -> None:
    records = [household_from_seed(TINY, GeneratedSplit.TEST, seed) for seed in range(100)]
    assert len({record["pddl_problem"] for record in records}) == 100
    assert len({record["task_id"] for record in records}) == 100
    assert records == [household_from_seed(TINY, GeneratedSplit.TEST, seed) for seed in range(100)]


def test_hash_seed_of_the_process_makes_no_difference() -> None:
    script = (
        "import json\n"
        "from agent_gym.envs.alfworld.data.generator import *\n"
        "print(json.dumps([household_from_seed(HouseholdSpec(), s, 3) for s in GeneratedSplit]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"receptacles": 2}, "receptacles must be from 3 to 1000, got 2"),
        ({"objects": 1}, "objects must be from 2"),
        ({"distractors": -1}, "distractors must be from 0"),
        ({"hidden": 1.5}, "hidden must be a share"),
        ({"task_types": (TaskType.HEAT,), "rooms": (Room.BEDROOM,)}, r"no room of \['bedroom'\] has tasks of"),
    ],
)
def test_impossible_specs_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HouseholdSpec(**arguments)  # type: ignore[arg-type]


def test_tables_name_only_known_classes() -> None:
    for furniture in FURNITURE.values():
        assert furniture.holds <= set(THINGS)
    assert {name for room in FURNISHING.values() for name in room} <= set(FURNITURE)


def test_written_files_form_a_data_folder_that_plays_the_same(tmp_path: Path) -> None:
    for seed in range(6):
        record = household_from_seed(TINY, TRAIN, seed)
        path = write_game_files(record, tmp_path / "json_2.1.1", NEW_DOMAIN, grammar(NEW_PUT))
        assert (path.parent / "initial_state.pddl").read_text() == record["pddl_problem"]
    library = GameLibrary(tmp_path, cache=tmp_path / "cache")
    assert len(library.entries) == 6
    for entry in library.entries:
        seed = int(entry.task_id.rpartition("_")[2])
        assert GameState(library.game(entry)).reset() == _state(TINY, TRAIN, seed).reset()
        params = json.loads((entry.folder / "traj_data.json").read_text())["pddl_params"]
        assert params["object_target"] == entry.task_id.split("-")[1]
        assert library.human_goals(entry)[0] == library.game(entry).task


def test_an_old_file_is_brought_to_another_grammar_with_its_own_sentence(real_files: list[Path]) -> None:
    content = json.loads(real_files[0].read_text())
    made = with_stock_texts(content, NEW_DOMAIN, grammar(NEW_PUT))
    assert GameRecord.from_mapping(made).task == read_game_file(real_files[0]).task
    assert GameRecord.from_mapping(made).text_format is TextFormat.V04
    with pytest.raises(DataError, match='no "task" rule'):
        with_stock_texts(content, NEW_DOMAIN, "nothing")

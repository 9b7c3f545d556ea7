"""Dealing groups to environments by weight, and moving through the stages of a curriculum."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError
from trainers.rollout.curriculum import Curriculum, apportion, deal
from trainers.settings.env import DifficultyStage, EnvSettings, at_stage, parts
from trainers.settings.reading import resolve_config, to_values

weight_lists = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(
    lambda found: [value / sum(found) for value in found]
)


@given(weight_lists, st.integers(0, 200))
def test_every_prefix_of_the_deal_is_within_one_group_of_the_weights(weights: list[float], count: int) -> None:
    have = [0] * len(weights)
    for number, place in enumerate(deal(count, weights, have), 1):
        have[place] += 1
        assert all(value <= weight * number + 1 for value, weight in zip(have, weights, strict=True))
    for value, weight in zip(have, weights, strict=True):
        assert value >= weight * count - len(weights)


@given(weight_lists, st.lists(st.integers(0, 20), max_size=5))
def test_dealing_in_pieces_is_dealing_at_once(weights: list[float], pieces: list[int]) -> None:
    have = [0] * len(weights)
    found = []
    for piece in pieces:
        for place in deal(piece, weights, list(have)):
            have[place] += 1
            found.append(place)
    assert found == deal(sum(pieces), weights, [0] * len(weights))


@given(st.integers(0, 1000), weight_lists)
def test_apportioned_numbers_add_up_and_are_near_their_share(total: int, weights: list[float]) -> None:
    counts = apportion(total, weights)
    assert sum(counts) == total
    assert all(abs(count - total * weight) < 1 for count, weight in zip(counts, weights, strict=True))


def test_two_to_one_is_dealt_two_to_one() -> None:
    assert deal(6, [2 / 3, 1 / 3], [0, 0]) == [0, 1, 0, 0, 1, 0]


def test_a_stage_ends_after_its_iterations_or_at_its_success() -> None:
    curriculum = Curriculum(
        [DifficultyStage(iterations=2), DifficultyStage(success=0.5, window=2), DifficultyStage()]
    )
    assert [curriculum.advance(0.0), curriculum.advance(0.0)] == [False, True]
    found = [curriculum.advance(value) for value in (0.9, 0.0, None, 0.6, 0.4)]
    assert found == [False, False, False, False, True]  # the last two reach a mean of 0.5
    assert curriculum.stage == 2
    assert not any(curriculum.advance(1.0) for _ in range(9))


def test_success_of_an_earlier_stage_does_not_count_in_the_next() -> None:
    curriculum = Curriculum(
        [DifficultyStage(success=0.5, window=1), DifficultyStage(success=0.5), DifficultyStage()]
    )
    assert curriculum.advance(1.0)
    assert [curriculum.advance(1.0) for _ in range(3)] == [False, False, True]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=30), st.integers(0, 30))
def test_a_course_goes_on_from_its_saved_state(successes: list[float | None], cut: int) -> None:
    stages = [DifficultyStage(success=0.6, iterations=7), DifficultyStage(success=0.4, window=2), DifficultyStage()]
    whole, broken = Curriculum(stages), Curriculum(stages)
    expected = [whole.advance(value) for value in successes]
    found = [broken.advance(value) for value in successes[:cut]]
    resumed = Curriculum(stages)
    resumed.load_state_dict(json.loads(json.dumps(broken.state_dict())))
    assert found + [resumed.advance(value) for value in successes[cut:]] == expected


def test_options_of_the_stages_lie_over_one_another() -> None:
    stages = (DifficultyStage({"size": [5, 5]}, 1), DifficultyStage({"boxes": 2}, 1), DifficultyStage({"boxes": 3}))
    settings = EnvSettings(options={"boxes": 1, "max_turns": 9}, stages=stages)
    assert at_stage(settings, 0).options == {"boxes": 1, "max_turns": 9, "size": [5, 5]}
    assert at_stage(settings, 1).options == {"boxes": 2, "max_turns": 9, "size": [5, 5]}
    assert at_stage(settings, -1).options == {"boxes": 3, "max_turns": 9, "size": [5, 5]}
    assert at_stage(EnvSettings(options={"boxes": 1}), -1).options == {"boxes": 1}


MIX = [
    {"id": "agent_gym/Sokoban-v0", "weight": 3, "history_length": 0},
    {"id": "ALFWorld-v0", "test_split": "valid"},
]


def test_parts_take_from_env_what_they_do_not_say() -> None:
    config = resolve_config({"env": {"mix": MIX, "history_length": 4, "prompt": "compact"}})
    first, second = parts(config.env)
    assert (first.name, first.weight, second.name, second.weight) == ("Sokoban", 0.75, "ALFWorld", 0.25)
    assert (first.settings.history_length, second.settings.history_length) == (0, 4)
    assert (first.settings.test_split, second.settings.test_split) == ("test", "valid")
    assert first.settings.prompt == "compact"
    assert not first.settings.mix
    assert resolve_config(to_values(config)) == config


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"mix": [MIX[0], MIX[0]]}, ["different names", "`name`"]),
        ({"mix": [{"id": "Sokoban-v0", "weight": 0}]}, ["weight", "above 0", "0"]),
        ({"mix": MIX, "options": {"boxes": 1}}, ["parts"]),
        ({"mix": [{"id": "Sokoban-v0", "name": "a/b"}]}, ["a/b", "letters"]),
        ({"mix": [{"id": "Sokoban-v0", "wieght": 2}]}, ["wieght", "weight"]),
        ({"stages": [{"options": {"split": "test"}}]}, ["split", "train_split"]),
        ({"stages": [{"options": {}}, {"options": {}}]}, ["stage 1 of 2 never ends"]),
        ({"stages": [{"iterations": 3}]}, ["last stage lasts to the end"]),
        ({"stages": [{"iterations": 0}, {}]}, ["iterations", "at least 1", "0"]),
        ({"stages": [{"success": 1.5}, {}]}, ["success", "1.5"]),
        ({"stages": [{"sucess": 0.5}, {}]}, ["sucess", "success"]),
    ],
)
def test_mixes_and_stages_that_cannot_work_are_named(env: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_config({"env": env})
    for part in expected:
        assert part in str(caught.value)

"""The oracle wins from every state that can be won, by a shortest way, with admissible commands."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.envs.alfworld.data.generator import TINY, GeneratedSplit, HouseholdSpec, household_from_seed
from agent_gym.envs.alfworld.oracle import Oracle, plan
from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.game import compile_game, load_game
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat
from agent_gym.envs.alfworld.world.goals import TaskType
from tests.envs.alfworld.tiny import GOALS, start


def win(state: GameState, limit: int = 50) -> int | None:
    """Play the oracle's commands; return their number, None when it gives up."""
    oracle = Oracle()
    for turn in range(limit + 1):
        command = oracle.action(state)
        if command is None:
            return turn if state.won else None
        assert command in state.admissible(), command
        state.step(command)
    raise AssertionError("no win within the limit")


def shortest(state: GameState, limit: int) -> int | None:
    """Length of a shortest winning run, by breadth-first search over all admissible commands."""
    queue, seen = deque([(0, state.copy())]), {state.key()}
    while queue:
        depth, here = queue.popleft()
        if here.won:
            return depth
        if depth == limit:
            continue
        for command in here.admissible():
            if command.split()[0] in ("look", "inventory", "help", "examine"):
                continue
            after = here.copy()
            after.step(command)
            if after.key() not in seen:
                seen.add(after.key())
                queue.append((depth + 1, after))
    return None


def dropped_nowhere(state: GameState) -> bool:
    """Whether the object in hand fits in no receptacle that can be reached."""
    game = state.game
    return state.held >= 0 and not any(
        mask >> state.held & 1 and game.place_of[r] >= 0 for r, mask in enumerate(game.accepts)
    )


def test_all_real_games_are_won_within_fifty_turns(real_files: list[Path]) -> None:
    lengths = [win(GameState(load_game(path), TextFormat.V04)) for path in real_files]
    assert None not in lengths
    assert len(lengths) == 340


def test_old_text_games_are_won_in_their_own_words(real_files: list[Path]) -> None:
    assert all(win(GameState(load_game(path))) for path in real_files[::17])


@pytest.mark.slow
@pytest.mark.parametrize("split", list(GeneratedSplit))
def test_a_thousand_generated_games_are_won(split: GeneratedSplit) -> None:
    for seed in range(334):
        record = household_from_seed(HouseholdSpec(), split, seed)
        assert win(GameState(compile_game(GameRecord.from_mapping(record)))), seed


def test_the_oracle_recovers_after_random_play(real_files: list[Path]) -> None:
    rng = random.Random(5)
    for path in real_files[::5]:
        state = GameState(load_game(path), TextFormat.V04)
        for _ in range(rng.randrange(60)):
            state.step(rng.choice(state.admissible()))
        turns = win(state)
        assert turns is not None or dropped_nowhere(state)


@settings(max_examples=40, deadline=None)
@given(
    task_type=st.sampled_from(list(TaskType)),
    seed=st.integers(0, 10**9),
    choices=st.lists(st.integers(0, 10**6), max_size=12),
)
def test_plans_are_as_short_as_any(task_type: TaskType, seed: int, choices: list[int]) -> None:
    spec = HouseholdSpec(receptacles=3, objects=2, hidden=0.5, shared_locations=0.3, task_types=(task_type,))
    record = household_from_seed(spec, GeneratedSplit.TRAIN, seed)
    state = GameState(compile_game(GameRecord.from_mapping(record)))
    for choice in choices:
        commands = state.admissible()
        state.step(commands[choice % len(commands)])
    best = shortest(state, 14)
    commands_planned = plan(state)
    assert (None if commands_planned is None else len(commands_planned)) == best


@pytest.mark.parametrize("goal", sorted(GOALS))
def test_the_hand_made_kitchen_is_won_by_a_shortest_way(goal: str) -> None:
    commands = plan(start(goal))
    assert commands is not None
    assert len(commands) == win(start(goal))
    if goal != "two":  # its search space is too large
        assert len(commands) == shortest(start(goal), 7)


def test_a_thing_that_also_lies_at_its_goal_needs_no_way_back() -> None:
    # The pan lies on both burners: taken from one and cooled, it is still on the other.
    assert plan(start("cool")) == (
        "go to stoveburner 2", "take pan 1 from stoveburner 2", "go to fridge 1", "cool pan 1 with fridge 1",
    )  # fmt: skip


def test_the_plan_is_made_anew_when_the_game_leaves_it() -> None:
    state = start("place")
    oracle = Oracle()
    state.step(oracle.action(state) or "")
    state.step("go to fridge 1")
    for _ in range(10):
        command = oracle.action(state)
        if command is None:
            break
        assert command in state.admissible()
        state.step(command)
    assert state.won
    assert oracle.action(state) is None


def test_a_hopeless_game_has_no_plan() -> None:
    state = start("light", extra_facts="(holds agent1 Lamp_bar_a) (holdsAny agent1)")
    assert plan(state) is None
    assert Oracle().action(state) is None


def test_planning_changes_nothing() -> None:
    state = start("two", "go to countertop 1")
    before = (state.key(), state.moves)
    plan(state)
    Oracle().action(state)
    assert (state.key(), state.moves) == before


def test_tiny_households_are_won_in_few_turns() -> None:
    lengths = []
    for seed in range(100):
        record = household_from_seed(TINY, GeneratedSplit.VALID, seed)
        lengths.append(win(GameState(compile_game(GameRecord.from_mapping(record)))) or 99)
    assert max(lengths) <= 16

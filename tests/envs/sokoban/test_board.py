"""The rules agree with recorded runs of gym-sokoban, and boards copy, pickle and compare by state."""

from __future__ import annotations

import copy
import pickle

import pytest

from agent_gym.envs.sokoban.world.board import Board, Direction, Level, Move
from tests.data import read_json

_MICROBAN = "####\n# .#\n#  ###\n#*@  #\n#  $ #\n#  ###\n####"
_BY_WORD = {direction.word: direction for direction in Direction}


def _play(board: Board, action: str) -> Move:
    verb, _, word = action.partition(" ")
    if verb == "no":
        return board.noop()
    return (board.push if verb == "push" else board.move)(_BY_WORD[word])


@pytest.mark.parametrize("recording", ["gym_sokoban_transcripts", "gym_sokoban_wins"])
def test_recorded_runs_replay_with_equal_rewards_flags_and_boards(recording: str) -> None:
    runs = read_json(f"boxoban/{recording}.json.xz")
    for run in runs:
        board = Board(Level.from_xsb("\n".join(run["start"]), equal_counts=False))
        assert board.rows() == run["start"]
        move = None
        for step in run["steps"]:
            could = board.effective(_BY_WORD[step["action"].split()[1]]) if "push" in step["action"] else None
            before = board.rows()
            move = _play(board, step["action"])
            assert move.reward == step["reward"]
            assert (move.moved, move.pushed) == (step["moved_player"], step["moved_box"])
            assert board.rows() == step["board"]
            assert could is None or could == (board.rows() != before)
            if move.solved:
                assert step["done"]
        assert move is not None
        assert move.solved == run["won"]


def test_boxes_that_start_on_goals_are_rewarded_on_the_first_step() -> None:
    board = Board(Level.from_xsb(_MICROBAN))
    assert board.boxes_on_goals == 1
    assert board.noop().reward == -0.1 + 1
    assert board.noop().reward == -0.1


def test_player_on_a_goal_keeps_its_own_symbol_and_the_goal() -> None:
    board = Board(Level.from_xsb("#####\n#@.$#\n#  .#\n# $ #\n#####"))
    assert board.move(Direction.RIGHT).moved
    assert board.rows()[1] == "# +$#"
    assert sum(row.count(goal) for row in board.rows() for goal in ".*+") == 2
    assert board.boxes_on_goals == 0
    board.move(Direction.LEFT)
    assert board.rows()[1] == "#@.$#"


def test_push_moves_one_box_only_and_move_never_pushes() -> None:
    board = Board(Level.from_xsb("#######\n#@$$..#\n#######"))
    assert board.push(Direction.RIGHT) == (False, False, -0.1, False)
    board = Board(Level.from_xsb("######\n#@$ .#\n######"))
    assert board.move(Direction.RIGHT) == (False, False, -0.1, False)
    assert board.push(Direction.RIGHT) == (True, True, -0.1, False)
    assert board.push(Direction.RIGHT) == (True, True, -0.1 + 1 + 10, True)
    assert board.solved
    assert board.noop() == (False, False, -0.1 + 10, True)


def test_leaving_a_goal_costs_one() -> None:
    board = Board(Level.from_xsb("########\n#@*  $.#\n########"))
    board.noop()
    assert board.push(Direction.RIGHT).reward == -0.1 - 1


def test_boards_copy_pickle_and_deepcopy_independently() -> None:
    board = Board(Level.from_xsb(_MICROBAN))
    board.push(Direction.LEFT)
    for other in (board.copy(), copy.deepcopy(board), copy.copy(board), pickle.loads(pickle.dumps(board))):
        assert other == board
        other.push(Direction.UP)
        assert other != board
    assert copy.deepcopy(board).level is board.level

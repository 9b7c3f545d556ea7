"""Sokoban through the text environment: options, texts, data sources, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agent_gym
from agent_gym.envs.sokoban.world.level import MAX_SIDE, Level
from agent_gym.support.errors import ConfigError, DataError, InvalidActionError
from tests.data import shared_data

TINY = "#####\n#@$.#\n#####"
TWO = "######\n#@$. #\n# $. #\n######"


def play(env: Any, *actions: str) -> list[tuple[Any, ...]]:
    return [env.step(action) for action in actions]


def make(**options: Any) -> Any:
    return agent_gym.make_env("Sokoban-v0", options)


class TestActions:
    def test_push_walks_and_pushes_move_never_pushes_and_waiting_costs_a_step(self) -> None:
        env = make(levels=[TWO])
        env.reset()
        steps = play(env, "move right", "no operation", "push right")
        assert [step[1] for step in steps[:2]] == [-0.1, -0.1]
        assert not steps[0][4]["sokoban/moved"]
        assert steps[2][4]["sokoban/pushed"]
        assert steps[2][1] == pytest.approx(0.9)

    def test_a_walk_into_a_wall_is_valid_but_not_admissible(self) -> None:
        env = make(levels=[TINY])
        _, info = env.reset()
        assert info["admissible_actions"] == ("right",)
        _, reward, _, _, info = env.step("up")
        assert (reward, info["valid_action"], info["sokoban/moved"]) == (-0.1, True, False)

    def test_an_unknown_action_costs_a_step_and_shows_the_reason_and_the_board(self) -> None:
        env = make(levels=[TINY])
        env.reset()
        observation, reward, terminated, truncated, info = env.step("superb")
        assert observation.startswith("Unknown action 'superb'")
        assert "#PXO#" in observation
        assert (reward, terminated, truncated, info["valid_action"]) == (-0.1, False, False, False)

    def test_several_actions_make_one_turn_and_stop_at_the_solution(self) -> None:
        env = make(levels=[TINY], max_actions_per_turn=3)
        env.reset()
        _, reward, terminated, _, info = env.step("up||right||left")
        assert (terminated, info["turn"]) == (True, 1)
        assert reward == pytest.approx(-0.1 + 10.9)

    def test_more_actions_than_a_turn_takes_are_refused_as_a_whole(self) -> None:
        env = make(levels=[TINY], max_actions_per_turn=2)
        env.reset()
        observation, _, _, _, info = env.step("up||up||right")
        assert "At most 2 actions are accepted in a turn, got 3" in observation
        assert not info["sokoban/moved"]

    def test_a_rejected_action_raises_on_request_and_names_the_admissible_ones(self) -> None:
        env = make(levels=[TINY], invalid_action="raise")
        env.reset()
        with pytest.raises(InvalidActionError, match=r"rigth.*Did you mean 'right'"):
            env.step("rigth")


def largest() -> str:
    """The largest level: a box and a goal on almost every cell."""
    inside = MAX_SIDE - 2
    row = f"#{'*' * inside}#"
    return "\n".join(["#" * MAX_SIDE, f"#@{'*' * (inside - 1)}#", *[row] * (inside - 1), "#" * MAX_SIDE])


class TestScore:
    def test_it_is_the_share_of_the_goals_with_a_box_from_the_start(self) -> None:
        env = make(levels=["#######\n#@ $. #\n#  *  #\n#######"])
        _, info = env.reset()
        assert (info["score"], info["sokoban/boxes_on_goals"], info["success"]) == (0.5, 1, False)
        assert env.step("nonsense")[4]["score"] == 0.5
        assert env.step("no operation")[4]["score"] == 0.5


class TestTexts:
    @pytest.mark.parametrize("options", [{}, {"coordinates": True}, {"symbols": "xsb", "coordinates": True}])
    def test_the_largest_level_is_in_the_observation_space(self, options: dict[str, Any]) -> None:
        env = make(levels=[largest()], **options)
        observation, _ = env.reset()
        assert observation in env.observation_space
        assert env.step("\U000f0000" * 4_096)[0] in env.observation_space

    def test_symbol_sets_legend_and_coordinates(self) -> None:
        plain, _ = make(levels=[TWO], symbols="xsb", legend=False).reset()
        assert plain == TWO
        full, info = make(levels=[TWO], coordinates=True).reset()
        assert full.splitlines()[0].startswith("Legend: # wall, _ floor")
        assert "You: (1, 1). Boxes: (1, 2), (2, 2). Goals: (1, 3), (2, 3)." in full
        assert "Legend" not in info["prompt_observation"]

    def test_a_player_on_a_goal_has_a_symbol_of_its_own(self) -> None:
        observation, _ = make(levels=["#####\n#+$ #\n#####"], legend=False).reset()
        assert observation == "#####\n#SX_#\n#####"

    def test_a_deadlock_is_told_in_info_only(self) -> None:
        env = make(levels=["######\n#  . #\n# $@ #\n#    #\n######"])
        observation, info = env.reset()
        assert not info["sokoban/deadlocked"]
        observation, _, terminated, _, info = env.step("left")
        assert info["sokoban/deadlocked"]
        assert not terminated
        assert "dead" not in observation

    def test_pixels_follow_the_board(self) -> None:
        env = make(levels=[TWO], render_mode="rgb_array")
        env.reset()
        before = env.render()
        assert before.dtype == np.uint8
        assert before.shape[2] == 3
        env.step("right")
        assert (env.render() != before).any()

    def test_human_rendering_opens_and_closes_a_window(self) -> None:
        pytest.importorskip("pygame")
        env = make(levels=[TINY], render_mode="human")
        env.reset()
        env.step("right")
        env.close()


class TestLevels:
    def test_a_file_of_levels_is_played_by_id(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.xsb"
        path.write_text(f"Title: one\n\n{TINY}\n\n{TWO}\n")
        env = make(levels=str(path))
        ids = list(env.unwrapped.tasks.ids)
        assert len(ids) == 2
        _, info = env.reset(options={"task_id": ids[1]})
        assert info["anchor"] == TWO
        assert env.unwrapped.max_turns == 200

    def test_files_are_found_below_the_data_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "mine.xsb").write_text(TINY)
        monkeypatch.setenv("AGENT_GYM_DATA", str(tmp_path))
        assert len(make(levels="mine.xsb").unwrapped.tasks) == 1

    def test_small_collections_split_without_overlap(self) -> None:
        rooms = [env.unwrapped.board.level.to_xsb() for env in [make()] for n in range(60) if env.reset(seed=n)]
        parts = [list(make(levels=rooms, split=split).unwrapped.tasks.ids) for split in ("train", "valid", "test")]
        assert sorted(task for part in parts for task in part) == sorted(make(levels=rooms).unwrapped.tasks.ids)
        assert all(parts)

    def test_copies_of_a_room_share_a_split_in_lists_and_files(self, tmp_path: Path) -> None:
        turned = "\n".join(map("".join, zip(*TWO.splitlines(), strict=True)))
        rooms = [TINY] * 20 + [TWO, turned] * 20
        path = tmp_path / "rooms.xsb"
        path.write_text("".join(f"; {number}\n{room}\n\n" for number, room in enumerate(rooms)))
        assert Level.from_xsb(TWO).content_key() == Level.from_xsb(turned).content_key()
        for levels in (rooms, str(path)):
            split_of: dict[str, set[str]] = {}
            found = 0
            for split in ("train", "valid", "test"):
                try:
                    tasks = make(levels=levels, split=split).unwrapped.tasks
                except DataError:  # two rooms cannot fill three splits
                    continue
                found += len(tasks)
                for task in tasks:
                    split_of.setdefault(Level.from_xsb(task.record).content_key(), set()).add(split)
            assert found == len(rooms)
            assert [len(splits) for splits in split_of.values()] == [1, 1]

    def test_the_hard_collection_is_played_whole_unless_a_share_is_asked_for(self, tmp_path: Path) -> None:
        for name in ("unfiltered/train", "unfiltered/test", "hard"):
            (tmp_path / name).mkdir(parents=True)
            (tmp_path / name / "000.txt").write_text(f"; 0\n{TINY}\n\n; 1\n{TWO}\n")
        chosen = [
            make(levels=str(tmp_path), **options).unwrapped.tasks
            for options in ({"collection": "hard"}, {"collection": "hard", "split": "all"}, {})
        ]
        assert [list(tasks.ids) for tasks in chosen[:2]] == [["hard/000#0", "hard/000#1"]] * 2
        assert [tasks.split for tasks in chosen] == ["all", "all", "train"]
        assert list(chosen[2].ids) == ["unfiltered/train/000#0", "unfiltered/train/000#1"]
        assert len(make(levels=str(tmp_path), split="all").unwrapped.tasks) == 6

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"levels": ["#####\n#@$ #\n#####"]}, r"levels\[0\].*goal"),
            ({"levels": ["###\n#x#\n###"]}, r"levels\[0\]"),
            ({"levels": [""]}, r"levels\[0\]"),
            ({"levels": []}, "empty list"),
            ({"levels": "nowhere/at/all"}, "no data at .*expected a Boxoban folder"),
        ],
    )
    def test_malformed_levels_are_named(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(DataError, match=message):
            make(**options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"size": (5, 5), "boxes": 12}, "found boxes=12"),
            ({"size": (2, 9)}, "found height=2"),
            ({"split": "tset"}, "Did you mean 'test'"),
            ({"symbols": "emoji"}, "letters"),
            ({"difficulty": "6x6"}, "Did you mean"),
            ({"max_turns": 0}, "at least 1"),
            ({"max_actions_per_turn": 0}, "at least 1"),
            ({"colour": 1}, "no option 'colour'"),
            ({"collection": "hard"}, "give levels="),
            ({"levels": [TINY], "split": "dev"}, "train.*all"),
        ],
    )
    def test_bad_options_are_named(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            make(**options)

    @pytest.mark.parametrize("action", ["", " ", "x" * 100_000])
    def test_empty_and_huge_actions_are_rejected_and_the_world_stays(self, action: str) -> None:
        env = make(levels=[TINY])
        _, before = env.reset()
        observation, reward, _, _, info = env.step(action)
        assert len(observation) < 500
        assert (info["anchor"], info["valid_action"], reward) == (before["anchor"], False, -0.1)


class TestBoxoban:
    def test_the_oracle_solves_real_levels_through_gymnasium(self) -> None:
        levels = shared_data("boxoban")
        env = gym.make("agent_gym/Boxoban-v0", levels=str(levels), split="valid", collection="unfiltered")
        ids = env.unwrapped.tasks.ids  # type: ignore[attr-defined]
        assert len(ids) == 1000
        for task_id in ids[:25]:
            _, info = env.reset(options={"task_id": task_id})
            while not info["stop_reason"]:
                info = env.step(env.unwrapped.oracle_action())[4]  # type: ignore[attr-defined]
            assert info["success"]
            assert info["task_id"] == task_id

    def test_splits_are_the_folders(self) -> None:
        levels = str(shared_data("boxoban"))
        train = agent_gym.make_env("Boxoban-v0", {"levels": levels}).unwrapped.tasks  # type: ignore[attr-defined]
        assert {task_id.split("/")[1] for task_id in train.ids} == {"train"}
        assert {task_id.split("/")[0] for task_id in train.ids} == {"unfiltered", "medium"}
        with pytest.raises(DataError, match="present are"):
            agent_gym.make_env("Boxoban-v0", {"levels": levels, "split": "test"})

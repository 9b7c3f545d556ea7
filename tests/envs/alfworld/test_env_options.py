"""The environment's options: which games are played, in which words, and copies of running games."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_gym  # noqa: F401 (registers the ids)
from agent_gym.core.tasks import ListTaskSet, save_tasks
from agent_gym.envs.alfworld.data.index import read_trajectory
from agent_gym.envs.alfworld.env import ALFWorldEnv
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.support.errors import ConfigError, DataError
from tests.envs.alfworld.tiny import GOALS, content, problem

ID = "agent_gym/ALFWorld-v0"


def _oracle_run(env: Any) -> list[tuple[str, dict[str, Any]]]:
    """Follow the oracle to the end; returns observations with infos."""
    shown, ended = [], False
    while not ended:
        observation, _, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
        shown.append((observation, info))
        ended = terminated or truncated
    return shown


class TestSelection:
    @pytest.mark.parametrize(
        "asked", [["pick_two_obj_and_place", "look_at_obj_in_light"], [6, 2], ["2", 6], (6, 2, 6)]
    )
    def test_task_types_by_name_or_id_mean_the_same(self, real_data: Path, asked: list[Any]) -> None:
        env = ALFWorldEnv(data=real_data, split="valid_seen", task_types=asked)
        assert len(env.tasks) == 13 + 24
        assert {task.type for task in env.tasks} == {"look_at_obj_in_light", "pick_two_obj_and_place"}
        generated = ALFWorldEnv(task_types=asked)
        assert generated.tasks.ids[0] == ALFWorldEnv(task_types=[2, 6]).tasks.ids[0]
        assert {generated.reset(seed=seed)[1]["task_type"] for seed in range(12)} == {
            "look_at_obj_in_light",
            "pick_two_obj_and_place",
        }

    def test_each_id_names_its_task_type(self, real_data: Path) -> None:
        sizes = (35, 13, 27, 16, 25, 24)  # of valid_seen, in the order of the ids
        for number, (kind, size) in enumerate(zip(TaskType, sizes, strict=True), 1):
            tasks = ALFWorldEnv(data=real_data, split="valid_seen", task_types=number).tasks
            assert len(tasks) == size
            assert all(task_id.startswith(f"valid_seen/{kind}-") for task_id in tasks.ids)

    def test_scenes_by_number_or_text(self, real_data: Path) -> None:
        every = ALFWorldEnv(data=real_data).tasks.ids
        scene = every[0].split("/")[1].rpartition("-")[2]
        expected = [task_id for task_id in every if task_id.split("/")[1].endswith(f"-{scene}")]
        for asked in (scene, int(scene), [scene], (int(scene),)):
            assert list(ALFWorldEnv(data=real_data, scenes=asked).tasks.ids) == expected

    def test_rooms_and_sizes_shape_generated_households(self) -> None:
        for asked in ("kitchen", ["kitchen"]):
            env = ALFWorldEnv(rooms=asked, receptacles=9, objects=12)
            for seed in range(5):
                env.reset(seed=seed)
                assert env.task.record["scene"] == "kitchen"
                assert len(env.state.game.receptacles) == 9
                assert len(env.state.game.objects) in (12, 13)  # a lamp is no movable object

    @pytest.mark.parametrize(
        ("difficulty", "receptacles", "turns"), [("small", 6, 50), ("real", 22, 50), ("large", 220, 100)]
    )
    def test_difficulty_gives_defaults_that_other_options_replace(
        self, difficulty: str, receptacles: int, turns: int
    ) -> None:
        env = ALFWorldEnv(difficulty=difficulty)
        env.reset(seed=0)
        assert (len(env.state.game.receptacles), env.max_turns) == (receptacles, turns)
        env = ALFWorldEnv(difficulty=difficulty, receptacles=11, max_turns=7)
        env.reset(seed=0)
        assert (len(env.state.game.receptacles), env.max_turns) == (11, 7)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"difficulty": "smal"}, "Did you mean 'small'"),
            ({"task_types": ["pick_and_place"]}, "Did you mean 'pick_and_place_simple'"),
            ({"task_types": 7}, "ids are 1 to 6, got 7"),
            ({"task_types": 1.5}, r"task_types must be one of .* got 1\.5"),
            ({"rooms": "kitchn"}, "Did you mean 'kitchen'"),
            ({"rooms": "bathroom", "task_types": 4}, "no room of"),
            ({"scenes": 10}, "give data= too"),
            ({"split": "valid_seen"}, r"splits \['train', 'valid', 'test'\].*belong to the real data"),
            ({"receptacles": 2}, "receptacles must be from 3 to 1000, got 2"),
            ({"objects": 2.5}, "objects must be a whole number, got 2.5"),
            ({"hidden": "much"}, "hidden must be a share from 0 to 1, got 'much'"),
            ({"openable": float("nan")}, "openable must be a share"),
            ({"text": "0.5"}, r"text must be one of \['0.3', '0.4'\], got '0.5'"),
            ({"backend": "jericho"}, r"backend must be one of native, textworld"),
            ({"goals": "humans"}, "Did you mean 'human'"),
            ({"goals": "human"}, "needs the real data"),
            ({"feedback": "explained"}, "Did you mean 'explain'"),
            ({"domain_randomization": "yes"}, "must be true or false"),
            ({"backend": "textworld", "feedback": "explain"}, "native engine's"),
            ({"backend": "textworld", "text": "0.3"}, "only from files of that format"),
        ],
    )
    def test_options_that_cannot_work_are_refused_when_the_environment_is_made(
        self, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            gym.make(ID, **options)

    def test_data_excludes_what_shapes_generated_households(self, real_data: Path) -> None:
        with pytest.raises(ConfigError, match="receptacles, rooms describe generated households"):
            ALFWorldEnv(data=real_data, receptacles=5, rooms=["kitchen"])
        with pytest.raises(ConfigError, match=r"no split 'valid_unsen'.*valid_seen \(140 games\)"):
            ALFWorldEnv(data=real_data, split="valid_unsen")
        with pytest.raises(ConfigError, match="none of the 140 games"):
            ALFWorldEnv(data=real_data, split="valid_seen", scenes=[1000])


class TestWords:
    def test_human_goals_are_drawn_with_the_seed_and_told_everywhere(self, real_data: Path) -> None:
        env = ALFWorldEnv(data=real_data, split="valid_seen", goals="human")
        plain = ALFWorldEnv(data=real_data, split="valid_seen")
        task_id, drawn = env.tasks.ids[3], set()
        for seed in range(20):
            observation, info = env.reset(seed=seed, options={"task_id": task_id})
            assert env.reset(seed=seed, options={"task_id": task_id}) == (observation, info)
            assert observation.endswith(f"\n\nYour task is to: {info['goal']}.")
            drawn.add(info["goal"])
        rows = read_trajectory(Path(env.task.record["game_file"]).parent)["turk_annotations"]["anns"]
        assert drawn == {row["task_desc"].strip().rstrip(". ") for row in rows}
        assert len(drawn) > 1
        template = plain.reset(options={"task_id": task_id})[1]["goal"]
        assert template not in drawn
        assert _oracle_run(env)[-1][1]["success"]

    def test_shuffled_names_are_drawn_with_the_seed_and_play_the_same_game(self, real_data: Path) -> None:
        for source in ({}, {"data": real_data}):
            env = ALFWorldEnv(domain_randomization=True, **source)
            plain = ALFWorldEnv(**source)
            task_id = env.tasks.ids[5]
            intros = {}
            for seed in range(6):
                shown = env.reset(seed=seed, options={"task_id": task_id})
                run = _oracle_run(env)
                assert env.reset(seed=seed, options={"task_id": task_id}) == shown
                assert _oracle_run(env) == run
                assert run[-1][1]["success"]
                intros[seed] = shown[0]
            assert len(set(intros.values())) > 1
            plain.reset(options={"task_id": task_id})
            assert sorted(env.state.vocabulary.objects) == sorted(plain.state.vocabulary.objects)
            env.reset(seed=0, options={"task_id": task_id})
            again = [env.reset(options={"task_id": task_id})[0] for _ in range(6)]
            assert len(set(again)) > 1, "each episode draws anew"

    def test_explanations_come_after_the_original_text(self) -> None:
        env = ALFWorldEnv(feedback="explain")
        env.reset(options={"task": content(GOALS["place"])})
        observation, *_, info = env.step("open fridge 1")
        assert observation == "Nothing happens. You are not at fridge 1; go to it first."
        assert not info["valid_action"]
        for action in ("\x00" * 4000, "open " + "\U000e0001" * 4000, "take " + "a" * 4000 + " from desk 1"):
            observation = env.step(action)[0]
            assert observation in env.observation_space
            assert len(observation) < 4000

    def test_text_versions_differ_in_words_only(self, real_data: Path) -> None:
        new, old = (ALFWorldEnv(data=real_data, text=text) for text in ("0.4", "0.3"))
        runs = []
        for env in (new, old):
            observation, info = env.reset(seed=3)
            runs.append((observation, info["goal"], len(_oracle_run(env))))
            assert ("help" in info["admissible_actions"]) is (env is new)
        assert runs[0] == runs[1]

    def test_rendering_shows_the_visible_state(self) -> None:
        env: Any = gym.make(ID, render_mode="ansi")
        _, info = env.reset(seed=0)
        assert env.render() == info["anchor"]
        assert info["anchor"].startswith("place: middle of a room")


class TestTasks:
    def test_task_files_hold_real_and_generated_games(self, real_data: Path, tmp_path: Path) -> None:
        real = ALFWorldEnv(data=real_data, split="valid_seen")
        made = ALFWorldEnv(split="test")
        sources = {task_id: env for env in (real, made) for task_id in (env.tasks.ids[0], env.tasks.ids[-1])}
        path = tmp_path / "tasks.jsonl"
        save_tasks(path, [env.tasks.get(task_id) for task_id, env in sources.items()])
        mixed = ALFWorldEnv(tasks=path)
        assert list(mixed.tasks.ids) == list(sources)
        for task_id, env in sources.items():
            start: dict[str, Any] = {"seed": 1, "options": {"task_id": task_id}}
            assert mixed.reset(**start) == env.reset(**start)
            assert _oracle_run(mixed) == _oracle_run(env)

    def test_task_ids_are_the_folders_of_the_data(self, real_data: Path) -> None:
        env = ALFWorldEnv(data=real_data / "json_2.1.1", split="valid_seen")
        task_id = env.tasks.ids[17]
        assert (real_data / "json_2.1.1" / task_id / "game.tw-pddl").is_file()
        _, info = env.reset(options={"task_id": task_id})
        assert (info["task_id"], info["task_type"]) == (task_id, task_id.split("/")[1].partition("-")[0])

    def test_relative_data_names_are_looked_up_where_the_variable_says(
        self, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = ALFWorldEnv().reset(seed=1)
        monkeypatch.setenv("AGENT_GYM_DATA", str(real_data))
        monkeypatch.chdir(tmp_path)
        env = ALFWorldEnv(data="json_2.1.1", split="valid_seen")
        assert len(env.tasks) == 140
        assert Path(env.tasks[0].record["game_file"]).is_absolute()
        assert ALFWorldEnv().reset(seed=1) == usual, "the variable changes no environment's meaning"

    def test_a_game_files_content_is_a_task_of_its_own(self, real_data: Path, real_files: list[Path]) -> None:
        env = ALFWorldEnv()
        file = next(path for path in real_files if "valid_seen" in path.parts)
        record = json.loads(file.read_text())
        observation, info = env.reset(options={"task": record})
        listed = ALFWorldEnv(data=real_data, split="valid_seen")
        listed_id = "/".join(file.parts[-4:-1])
        same, same_info = listed.reset(options={"task_id": listed_id})
        assert (observation, info["goal"]) == (same, same_info["goal"])
        assert info["task_id"].startswith("custom/")
        assert info["task_id"] == env.reset(options={"task": dict(record)})[1]["task_id"]
        assert info["task_id"] != env.reset(options={"task": content()})[1]["task_id"]

    def test_the_record_given_can_be_changed_afterwards(self) -> None:
        env, record = ALFWorldEnv(), content(GOALS["place"])
        env.reset(options={"task": record})
        saved = ListTaskSet([env.task])
        record.clear()
        assert ALFWorldEnv(tasks=saved).reset()[1]["goal"] == "put a mug in desk"

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ("game", "got str"),
            (None, "got NoneType"),
            ({}, "needs a text under 'pddl_problem'"),
            ({"game_file": 3}, "'game_file' must be a path, got int"),
            ({"game_file": "no/such/game.tw-pddl"}, "cannot be read: No such file"),
            ({"pddl_problem": "(define", "task": "x"}, "unclosed"),
        ],
    )
    def test_a_record_that_is_no_game_is_refused_by_name(self, record: Any, message: str) -> None:
        env = ALFWorldEnv()
        with pytest.raises(DataError, match=message):
            env.reset(options={"task": record})
        assert env.reset(seed=0)[1]["turn"] == 0

    def test_a_game_that_starts_won_is_won_by_any_command(self) -> None:
        won = content() | {"pddl_problem": problem(GOALS["place"], "\n(inReceptacle Mug_bar_a Desk_bar_a)")}
        env = ALFWorldEnv()
        _, info = env.reset(options={"task": won})
        assert not info["success"]
        _, reward, terminated, _, info = env.step(env.oracle_action())
        assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_the_oracle_wins_a_hundred_real_games_through_admissible_commands(real_data: Path) -> None:
    env = ALFWorldEnv(data=real_data, split="valid_seen")
    for task_id in env.tasks.ids[:100]:
        _, info = env.reset(options={"task_id": task_id})
        while not info["stop_reason"]:
            action = env.oracle_action()
            assert action in info["admissible_actions"]
            *_, info = env.step(action)
            assert info["valid_action"]
        assert info["success"]


def test_a_copy_in_mid_game_goes_its_own_way(real_data: Path) -> None:
    env = ALFWorldEnv(data=real_data, domain_randomization=True)
    env.reset(seed=1)
    first = env.oracle_action()
    twin = copy.deepcopy(env)
    assert twin.state is not env.state
    assert twin.state.game is env.state.game
    twin.step(first)
    assert env.state.moves == 0
    assert [row[0] for row in _oracle_run(env)][1:] == [row[0] for row in _oracle_run(twin)]

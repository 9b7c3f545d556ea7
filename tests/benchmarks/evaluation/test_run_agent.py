from __future__ import annotations

import dataclasses

import pytest

from agent_gym.play.episode import read_episodes
from agent_gym.support.errors import AgentGymWarning, DataError
from benchmarks.evaluation.agents import default_environment
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.results import EvaluationResult
from benchmarks.evaluation.run import evaluate
from tests.benchmarks.evaluation.conftest import SETTINGS
from tests.cli.command import agent_gym

CONFIG = EvalConfig("Sokoban-v0", episodes=6, max_turns=5, device="cpu")


def timeless(result):
    return [dataclasses.replace(row, seconds=0.0, slowest_turn=0.0) for row in result.rows]


def test_a_run_plays_its_latest_checkpoint_with_its_own_settings(run_folder):
    result = evaluate(CONFIG, f"run:{run_folder}")
    agent = result.header["agent"]
    assert (agent["step"], agent["prompt"], agent["sampling"]["max_reply_tokens"]) == (1, "compact", 6)
    assert result.summary.reply_tokens > 0
    assert all(row.reply_tokens <= 6 * row.turns for row in result.rows)


def test_the_cloned_policy_is_another_agent_than_the_trained_one(run_folder):
    trained = evaluate(CONFIG, f"run:{run_folder}").header["agent"]
    cloned = evaluate(CONFIG, f"run:{run_folder}@reference").header["agent"]
    assert cloned["step"] is None
    assert cloned["checksum"] != trained["checksum"]


def test_replies_do_not_depend_on_how_many_episodes_play_at_once(run_folder):
    alone, together = (
        evaluate(dataclasses.replace(CONFIG, parallel=parallel), f"run:{run_folder}") for parallel in (1, 6)
    )
    assert timeless(alone) == timeless(together)


class StopError(Exception):
    pass


def test_an_interrupted_evaluation_of_a_policy_goes_on_as_an_unbroken_one(run_folder, tmp_path):
    config = dataclasses.replace(CONFIG, parallel=2, output=tmp_path / "r.json")

    def stop(row):
        raise StopError

    with pytest.raises(StopError):
        evaluate(config, f"run:{run_folder}", on_episode=stop)
    resumed = evaluate(dataclasses.replace(config, resume=True), f"run:{run_folder}")
    assert timeless(resumed) == timeless(evaluate(CONFIG, f"run:{run_folder}"))
    assert len(list(read_episodes(config.episodes_path))) == 6


def test_a_run_names_its_environment(run_folder):
    assert default_environment(f"run:{run_folder}") == ("agent_gym/Sokoban-v0", {})


def test_a_run_on_a_mix_names_its_first_environment_and_how_the_others_are_played(tmp_path):
    from trainers.run.folder import RunFolder
    from trainers.settings.reading import resolve_config

    mix = [{"id": "Sokoban-v0"}, {"id": "Boxoban-v0", "options": {"levels": "my rooms", "size": [6, 6]}}]
    RunFolder.create(tmp_path / "mix", resolve_config({**SETTINGS, "env": {"mix": mix}}))
    said = r"trains on 2 environments.* plays Sokoban-v0; .*--env Boxoban-v0 --option 'levels=my rooms' --option"
    with pytest.warns(AgentGymWarning, match=said):
        assert default_environment(f"run:{tmp_path / 'mix'}") == ("Sokoban-v0", {})
    assert default_environment("oracle") is None


def test_a_run_without_evaluated_checkpoints_has_no_best_one(run_folder):
    with pytest.raises(DataError, match=r"no evaluated checkpoint.*@reference"):
        evaluate(CONFIG, f"run:{run_folder}@best")


def test_eval_plays_the_episodes_that_the_run_evaluates_itself_on(tmp_path):
    from trainers.loop import Trainer
    from trainers.run.folder import RunFolder
    from trainers.run.reporter import SilentReporter
    from trainers.settings.reading import resolve_config

    env = {**SETTINGS["env"], "options": {"max_moves": 5, "max_turns": 5}}
    settings = {**SETTINGS, "env": env, "seed": 3, "evaluation": {"episodes": 6}}
    folder = tmp_path / "run"
    Trainer(RunFolder.create(folder, resolve_config(settings)), SilentReporter()).run()
    own = {episode.task_id: episode for episode in read_episodes(folder / "episodes" / "test-after.jsonl")}

    done = agent_gym("eval", "--agent", f"run:{folder}", "--episodes", "20", "--output", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    assert EvaluationResult.read(tmp_path / "r.json").header["seeds"] == [3]
    assert len(own) == 6
    played = {episode.task_id: episode for episode in read_episodes(tmp_path / "r.episodes.jsonl")}
    assert own.keys() <= played.keys()
    for task_id, episode in own.items():
        again = played[task_id]
        assert again.seed == episode.seed
        assert [(turn.reply, turn.action) for turn in again.turns] == [
            (turn.reply, turn.action) for turn in episode.turns
        ]
        assert (again.reward, again.success) == (episode.reward, episode.success)

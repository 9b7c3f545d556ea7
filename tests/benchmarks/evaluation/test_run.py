from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import tests.toy  # noqa: F401  registers toy/Door-v0
from agent_gym.core.tasks import Task, save_tasks
from agent_gym.play.episode import read_episodes
from agent_gym.play.reply import Reply
from agent_gym.support.errors import ConfigError, DataError, UnknownTaskError
from agent_gym.support.seeding import derive_seed
from benchmarks.evaluation.agents import AgentKind, Contestant, make_agent, registry
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.results import EpisodeRow, EvaluationResult, summarise
from benchmarks.evaluation.run import evaluate

DOOR = "toy/Door-v0"
FAULTY = "toy/FaultyDoor-v0"


class Script:
    """Agent that says the same, or what a function of the episode says."""

    def __init__(self, say):
        self.say = say if callable(say) else lambda episode: say

    def act(self, episodes, runner):
        return [Reply(self.say(episode)) for episode in episodes]

    def observe(self, episode, parsed, before, reply):
        pass


def untimed(row):
    return dataclasses.replace(row, seconds=0.0, slowest_turn=0.0)


def scripted(say):
    return lambda handle: Contestant("script", Script(say))


def test_oracle_solves_what_it_is_given_and_random_solves_less():
    config = EvalConfig(DOOR, episodes=30)
    oracle, chance = evaluate(config, "oracle").summary, evaluate(config, "random").summary
    assert (oracle.success.value, oracle.n_ok, oracle.coverage) == (1.0, 30, 1.0)
    assert chance.success.value < 0.8
    assert set(oracle.by_type) == {"even", "odd"}
    assert sum(found.n for found in oracle.by_type.values()) == 30
    assert oracle.prompt_tokens is None


def test_ten_episodes_of_one_seed_have_ten_seeds_and_the_same_ten_next_time():
    runs = [evaluate(EvalConfig(DOOR, episodes=10), "random") for _ in range(2)]
    seeds = [[row.episode_seed for row in run.rows] for run in runs]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 10
    assert [untimed(row) for row in runs[0].rows] == [untimed(row) for row in runs[1].rows]


def test_episodes_do_not_depend_on_how_many_play_at_once_or_in_which_process():
    rows = [
        evaluate(EvalConfig("Sokoban-v0", episodes=12, parallel=parallel, workers=workers), "random").rows
        for parallel, workers in ((1, 0), (12, 0), (5, 1))
    ]
    first, second, third = [[untimed(row) for row in part] for part in rows]
    assert first == second == third


def test_several_seeds_give_pass_at_k_over_attempts_at_the_same_tasks():
    result = evaluate(EvalConfig(DOOR, episodes=20, seeds=(0, 1, 2)), "random")
    summary = result.summary
    assert len(result.rows) == 60
    assert summary.success.n == 20
    assert list(summary.pass_at) == [1, 2, 3]
    assert summary.pass_at[1] == pytest.approx(summary.success.value)
    assert summary.pass_at[3] >= summary.pass_at[1] >= summary.pass_hat[3]


def test_success_is_read_from_the_environment_and_not_from_rewards():
    # Walking away costs reward, and a long way round still wins: the sign of the return says nothing.
    def dawdle(episode):
        oracle_turn = episode.info["turn"] >= 4
        return "<action>say hello</action>" if not oracle_turn else "<action>open</action>"

    result = evaluate(EvalConfig(DOOR, episodes=40), scripted(dawdle))
    assert {row.success for row in result.rows} == {True, False}
    assert all(row.success == (row.stop_reason == "success") for row in result.rows)


def test_a_purchase_that_earns_something_and_misses_the_goal_is_no_success():
    def hasty(episode):  # buys the first product that the shop finds
        actions = episode.info["admissible_actions"]
        if "click[buy now]" in actions:
            return "<action>click[buy now]</action>"
        products = [action for action in actions if re.fullmatch(r"click\[b0\w+\]", action)]
        return f"<action>{products[0] if products else 'search[' + episode.info['goal'] + ']'}</action>"

    result = evaluate(EvalConfig("WebShop-v0", {"products": 40}, episodes=8), scripted(hasty))
    partial = [row for row in result.rows if 0 < row.reward < 1]
    assert partial
    assert not any(row.success for row in partial)
    assert {row.stop_reason for row in partial} == {"failure"}
    assert result.summary.success.value == sum(row.reward == 1 for row in result.rows) / 8


def test_invalid_replies_and_actions_are_counted_by_turn():
    result = evaluate(EvalConfig(DOOR, episodes=3, max_turns=4), scripted("hello"))
    assert [(row.turns, row.invalid_format, row.stop_reason) for row in result.rows] == [(4, 4, "max_turns")] * 3
    assert result.summary.invalid_format == 1.0


def test_an_environment_that_breaks_is_an_error_and_no_failure(tmp_path):
    def odd_ones_break(episode):
        number = int(episode.info["task_id"].split("/")[1])
        return "<action>break</action>" if number % 2 else "<action>open</action>"

    config = EvalConfig(FAULTY, episodes=10, output=tmp_path / "r.json")
    summary = evaluate(config, scripted(odd_ones_break)).summary
    assert (summary.n_ok, summary.n_error, summary.n_missing, summary.coverage) == (5, 5, 0, 0.5)
    assert summary.success.n == 5
    stored = json.loads(config.output.read_text())
    assert "a fault deep inside" in "".join(row["error"] for row in stored["episodes"])
    assert len(list(read_episodes(config.episodes_path))) == 5


SOLVABLE, DEADLOCKED = "######\n#@ $.#\n######", "######\n#$@ .#\n######"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_task_that_the_expert_cannot_solve_is_an_error_and_the_others_are_played(tmp_path, workers):
    options = {"levels": [SOLVABLE, DEADLOCKED, SOLVABLE]}
    config = EvalConfig("Sokoban-v0", options, split="all", output=tmp_path / "r.json", workers=workers)
    result = evaluate(config, "oracle")
    assert [(row.success, row.error_name) for row in result.rows] == [(True, ""), (False, "oracle"), (True, "")]
    assert "list#1" in result.rows[1].task_id
    assert len(result.rows[1].error) > len("oracle: ")
    again = evaluate(dataclasses.replace(config, resume=True), "oracle")
    assert (again.summary.n_ok, again.summary.errors) == (2, {"oracle": 1})


def test_an_evaluation_goes_on_with_the_same_data_only(tmp_path):
    levels = tmp_path / "levels.txt"
    levels.write_text("######\n#@ $.#\n######")
    config = EvalConfig("Sokoban-v0", {"levels": levels}, split="all", output=tmp_path / "r.json", resume=True)
    assert evaluate(config, "oracle").summary.n_ok == 1
    assert evaluate(config, "oracle").summary.n_ok == 1
    levels.write_text("######\n#@$ .#\n######")
    with pytest.raises(ConfigError, match="its tasks digest is"):
        evaluate(config, "oracle")


@pytest.mark.parametrize(("limit", "written"), [(None, None), (6, 6)])
def test_a_turn_limit_is_written_where_it_is_the_same_for_all_tasks(limit, written):
    result = evaluate(EvalConfig("SearchQA-v0", episodes=1, max_turns=limit), "random")
    assert result.header["max_turns"] == written
    assert evaluate(EvalConfig(DOOR, episodes=1, max_turns=limit), "random").header["max_turns"] == (limit or 12)


def test_errors_are_played_again_when_an_evaluation_goes_on(tmp_path):
    config = EvalConfig(FAULTY, episodes=6, output=tmp_path / "r.json")
    first = evaluate(config, scripted("<action>break</action>"))
    assert first.summary.n_error == 6
    again = evaluate(dataclasses.replace(config, resume=True), scripted("<action>say x</action>"))
    assert (again.summary.n_ok, again.summary.n_error) == (6, 0)


def row(task, success, seed=0, error=""):
    return EpisodeRow(task, seed, derive_seed(seed, task), "t", success, float(success), error=error)


def test_pass_at_k_ignores_attempts_that_ended_in_errors():
    rows = [row("a", True), row("a", False, 1), row("b", False), row("b", False, 1, error="down")]
    summary = summarise(rows, 5)
    assert (summary.n_ok, summary.n_error, summary.n_missing) == (3, 1, 1)
    assert summary.pass_at == {1: 0.25, 2: 1.0}
    assert summary.pass_tasks == {1: 2, 2: 1}
    assert summary.success.value == pytest.approx(1 / 3)


def test_a_result_file_says_what_it_is_a_result_of(tmp_path):
    config = EvalConfig("Sokoban-v0", {"symbols": "xsb"}, episodes=4, seeds=(3,), output=tmp_path / "a" / "r.json")
    result = evaluate(config, "oracle")
    stored = json.loads(config.output.read_text())
    assert stored["env_id"] == "agent_gym/Sokoban-v0"
    assert stored["env_kwargs"] == {"split": "test", "symbols": "xsb"}
    assert stored["split"] == "test"
    assert stored["tasks"] == {"count": 4, "digest": stored["tasks"]["digest"]}
    assert len(stored["tasks"]["digest"]) == 32
    assert (stored["seeds"], stored["max_turns"], stored["agent"]["spec"]) == ([3], 15, "oracle")
    assert {"package_version", "config", "wall_seconds"} <= set(stored)
    back = EvaluationResult.read(config.output)
    assert (back.header, back.rows, back.complete) == (result.header, result.rows, True)
    episodes = list(read_episodes(config.episodes_path))
    assert {(e.task_id, e.seed) for e in episodes} == {(r.task_id, r.episode_seed) for r in result.rows}


def test_a_result_file_is_never_overwritten(tmp_path):
    config = EvalConfig(DOOR, episodes=2, output=tmp_path / "r.json")
    evaluate(config, "oracle")
    with pytest.raises(ConfigError, match=r"exists.*--resume"):
        evaluate(config, "oracle")


class StopError(Exception):
    pass


@pytest.mark.parametrize("cut", [0, 40])
def test_a_broken_off_evaluation_goes_on_and_counts_each_episode_once(tmp_path, cut):
    config = EvalConfig(DOOR, episodes=20, parallel=4, output=tmp_path / "r.json")
    whole = evaluate(dataclasses.replace(config, output=None), "random").rows
    seen = []

    def stop_after_seven(row):
        seen.append(row)
        if len(seen) == 7:
            raise StopError

    with pytest.raises(StopError):
        evaluate(config, "random", on_episode=stop_after_seven)
    stored = EvaluationResult.read(config.output)
    assert (len(stored.rows), stored.complete) == (7, False)
    if cut:  # a kill in the middle of a write
        path = config.episodes_path
        path.write_bytes(path.read_bytes()[:-cut])
    plans, again = [], []
    resumed = evaluate(
        dataclasses.replace(config, resume=True),
        "random",
        on_plan=lambda total, done: plans.append((total, done)),
        on_episode=again.append,
    )
    kept = 6 if cut else 7
    assert plans == [(20, kept)]
    assert len(again) == 20 - kept
    lines = list(read_episodes(config.episodes_path))
    assert len({(e.task_id, e.seed) for e in lines}) == len(lines) == 20
    assert [untimed(r) for r in resumed.rows] == [untimed(r) for r in whole]


def test_going_on_with_another_evaluation_is_refused_and_names_the_difference(tmp_path):
    config = EvalConfig(DOOR, episodes=4, output=tmp_path / "r.json")
    evaluate(config, "oracle")
    for change, named in (({"seeds": (1,)}, "seeds"), ({"episodes": 5}, "tasks"), ({"max_turns": 3}, "max_turns")):
        with pytest.raises(ConfigError, match=f"another evaluation.*{named}"):
            evaluate(dataclasses.replace(config, resume=True, **change), "oracle")
    with pytest.raises(ConfigError, match="its agent spec is 'oracle', but 'random' is asked for"):
        evaluate(dataclasses.replace(config, resume=True), "random")
    finished = evaluate(dataclasses.replace(config, resume=True, parallel=2), "oracle")
    assert finished.complete


def test_foreign_episodes_beside_a_result_are_refused(tmp_path):
    config = EvalConfig(DOOR, episodes=2, output=tmp_path / "r.json")
    evaluate(config, "oracle")
    other = EvalConfig(DOOR, episodes=2, seeds=(5,), output=tmp_path / "s.json")
    evaluate(other, "oracle")
    config.episodes_path.write_bytes(other.episodes_path.read_bytes())
    with pytest.raises(DataError, match="do not belong together"):
        evaluate(dataclasses.replace(config, resume=True), "oracle")


def test_lists_of_tasks_are_played_whole_and_in_order(tmp_path):
    ids = ("door/219", "door/203")
    assert [r.task_id for r in evaluate(EvalConfig(DOOR, task_ids=ids), "oracle").rows] == list(ids)
    with pytest.raises(UnknownTaskError, match="door/999"):
        evaluate(EvalConfig(DOOR, task_ids=("door/999",)), "oracle")
    path = tmp_path / "tasks.jsonl"
    save_tasks(path, [Task(f"mine/{n}", "t", "mine", {"target": n}) for n in range(3)])
    result = evaluate(EvalConfig(DOOR, task_file=str(path)), "oracle")
    assert (result.header["split"], len(result.rows)) == ("mine", 3)


def test_a_split_with_fewer_tasks_is_played_whole_and_said_to_be():
    said = []
    assert len(evaluate(EvalConfig(DOOR, episodes=500), "oracle", on_notice=said.append).rows) == 120
    assert said == ["the split has 120 tasks: all of them are played"]
    evaluate(EvalConfig(DOOR, episodes=2), "oracle", on_notice=said.append)
    evaluate(EvalConfig(DOOR, task_ids=("door/219",), episodes=2), "oracle", on_notice=said.append)
    assert said[1:] == ["the list has one task"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"episodes": "5"}, "episodes must be a whole number or none, got '5'"),
        ({"env_id": 5}, "env_id must be text, got 5"),
        ({"seeds": 5}, "seeds must be a list of whole numbers, got 5"),
        ({"seeds": (1, 1)}, "different numbers"),
        ({"options": {"split": "test"}}, "setting of its own"),
        ({"resume": True}, "needs the result file"),
        ({"task_ids": ("a",), "task_file": "b"}, "not both"),
    ],
)
def test_settings_that_cannot_work_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        EvalConfig(**{"env_id": DOOR, **values})


def test_unknown_agents_are_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"Known agents: oracle, random, human, run:FOLDER"):
        evaluate(EvalConfig(DOOR), "orcale")
    with pytest.raises(ConfigError, match="takes nothing after a colon"):
        evaluate(EvalConfig(DOOR), "oracle:x")
    with pytest.raises(ConfigError, match="needs a run folder"):
        evaluate(EvalConfig(DOOR), "run")
    with pytest.raises(ConfigError, match="after the @"):
        evaluate(EvalConfig(DOOR), "run:x@last")
    with pytest.raises(DataError, match="not a run folder"):
        evaluate(EvalConfig(DOOR), f"run:{tmp_path}")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kind": "agent-gym evaluation", "schema_version": 99}'])
def test_files_that_are_no_results_are_refused(tmp_path, text):
    path = Path(tmp_path / "r.json")
    path.write_text(text)
    with pytest.raises(DataError, match=str(path)):
        EvaluationResult.read(path)


class PlaceKind(AgentKind):
    name = "place"
    usage = "place:N"
    summary = "a place in the list of actions"

    def make(self, argument, handle, settings):
        int(argument)
        raise AssertionError


def test_an_argument_that_an_agent_cannot_read_is_one_line_that_names_the_agent(monkeypatch):
    monkeypatch.setattr(registry, "_BUNDLED", (PlaceKind,))
    with pytest.raises(ConfigError, match=r"'place:x' cannot be made: invalid literal.*written place:N"):
        evaluate(EvalConfig(DOOR), "place:x")


class ShyKind(AgentKind):
    name = "shy"
    usage = "shy"
    summary = "reads one option"

    def make(self, argument, handle, settings):
        return Contestant("shy", Script(settings.options.get("say", "")))


def test_an_option_that_a_kind_does_not_read_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "_BUNDLED", (ShyKind,))
    config = EvalConfig(DOOR, episodes=1, max_turns=1)
    evaluate(dataclasses.replace(config, agent_options={"say": "x"}), "shy")
    with pytest.raises(ConfigError, match=r"'shy' takes no --agent-option a$"):
        evaluate(dataclasses.replace(config, agent_options={"say": "x", "a": 1}), "shy")


def test_agents_are_made_by_name_for_an_environment():
    from agent_gym.play.driver import EnvHandle

    contestant = make_agent("random", EnvHandle.make(DOOR, {}))
    assert contestant.spec == "random"

"""Evaluation: seeds of its own, errors apart from failures, stopping."""

from __future__ import annotations

from agent_gym.core.info import StopReason
from agent_gym.core.prompts import ContextMode
from agent_gym.play.driver import PlayResult
from agent_gym.play.request import evaluation_requests
from agent_gym.support.arithmetic import added
from tests.trainers.loop import door_encoder, door_split, play, script
from tests.trainers.toys import tiny_policy
from trainers.evaluate import evaluate_policy
from trainers.rollout.agent import EpisodeDraws, PolicyAgent
from trainers.rollout.summaries import summarise
from trainers.settings.sampling import SamplingSettings


def evaluate(tasks: list[str], seed: int = 0, **keywords: object):  # type: ignore[no-untyped-def]
    policy = tiny_policy()
    split = door_split(4, split="test", max_turns=2)
    sampler = script(policy, ["<action>up</action>", "nothing"])
    settings = SamplingSettings(max_reply_tokens=40)
    with split.runner:
        encoder = door_encoder(policy, ContextMode.WINDOW)
        agent = PolicyAgent(encoder, sampler, settings, EpisodeDraws())
        return evaluate_policy(split, agent, evaluation_requests(tasks, seed), **keywords)  # type: ignore[arg-type]


TASKS = [f"door/{number}" for number in range(200, 210)]


def test_every_episode_has_a_seed_of_its_own_and_the_same_one_again() -> None:
    seeds = [[episode.seed for episode in evaluate([*TASKS, *TASKS])[1].whole] for _ in range(2)]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 20
    assert not set(seeds[0]) & {episode.seed for episode in evaluate(TASKS, seed=1)[1].whole}


def test_the_numbers_are_means_over_episodes_and_replies() -> None:
    found, result = evaluate(TASKS)
    assert (found.split, found.n_ok, found.n_error, found.turns) == ("test", 10, 0, 2.0)
    assert (found.valid_format, found.valid_action) == (0.5, 0.5)
    assert found.reward == added(episode.reward for episode in result.whole) / 10
    assert set(found.by_type) == {"even", "odd"}
    assert set(found.metrics("test")) >= {"test/success", "test/score"}


def test_errors_of_the_world_and_of_tools_are_no_failures() -> None:
    policy = tiny_policy()
    sampler = script(policy, ["<action>up</action>"])
    (episode,) = play(door_split(max_turns=1), door_encoder(policy, ContextMode.WINDOW), sampler).whole
    from dataclasses import replace

    won = replace(episode, success=True, stop_reason=StopReason.SUCCESS)
    tool = replace(episode, stop_reason=StopReason.TOOL_ERROR)
    found = summarise("test", PlayResult([won, tool, None, episode], {2: "broken"}))
    assert (found.n_ok, found.n_error, found.success) == (2, 2, 0.5)
    assert found.standard_error > 0
    nothing = summarise("test", PlayResult([None], {0: "broken"}))
    assert (nothing.n_ok, nothing.n_error, nothing.success, nothing.standard_error) == (0, 1, 0.0, 0.0)


def test_a_stopped_evaluation_says_so_by_its_counts() -> None:
    found, _ = evaluate(TASKS, should_stop=lambda: True)
    assert (found.n_ok, found.n_error) == (0, 0)

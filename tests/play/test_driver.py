"""Playing many episodes at once: order, slots, failures, stopping."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.core.info import StopReason
from agent_gym.core.replies import ParsedReply
from agent_gym.play.agents import OracleAgent, RandomAgent
from agent_gym.play.driver import EnvHandle, LiveEpisode, PlayResult, play_episodes
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.reply import Reply
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner, InProcessRunner
from agent_gym.support.errors import ConfigError, UnknownTaskError, WorkerError
from tests import toy  # registers the toy ids

FAULTY = "toy/FaultyDoor-v0"
assert toy.SPLITS


class Scripted:
    """Says the same list of replies in every episode; a reply of None stops it."""

    def __init__(self, replies: Sequence[str | None]) -> None:
        self.replies = replies
        self.most = 0

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        self.most = max(self.most, len(episodes))
        said = [self.replies[len(episode.recorder.turns) % len(self.replies)] for episode in episodes]
        return [Reply("", stop=StopReason.CONTEXT_OVERFLOW) if text is None else Reply(text) for text in said]

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        assert episode.info["turn"] == before["turn"] + 1


def requests(count: int) -> list[EpisodeRequest]:
    return [EpisodeRequest(f"door/{number}", number, f"g{number // 2}") for number in range(count)]


def play(agent: Any, wanted: Sequence[EpisodeRequest], slots: int = 3, **keywords: Any) -> PlayResult:
    handle = EnvHandle.make(FAULTY, {"split": "train"})
    with InProcessRunner((FAULTY, {"split": "train"}), slots) as runner:
        return play_episodes(handle, runner, agent, wanted, **keywords)


def oracle() -> OracleAgent:
    return OracleAgent(EnvHandle.make(FAULTY, {}).env.reply_grammar)


@given(st.integers(0, 9), st.integers(1, 5))
@settings(max_examples=15, deadline=None)
def test_results_stand_in_the_order_of_requests_whatever_the_slots(count: int, slots: int) -> None:
    result = play(oracle(), requests(count), slots)
    assert [episode.task_id for episode in result.whole] == [request.task_id for request in requests(count)]
    other = play(oracle(), requests(count), 5)
    texts = [
        [[(t.observation, t.reply, t.reward) for t in e.turns] for e in played.whole] for played in (result, other)
    ]
    assert texts[0] == texts[1]
    assert all(episode.success for episode in result.whole)
    assert result.errors == {}


@pytest.mark.parametrize("agent", [Scripted(["<action>up</action>"]), oracle()], ids=["scripted", "oracle"])
def test_a_pool_without_workers_ends_the_play_and_no_turn_is_made_up(agent: Any, tmp_path: Path) -> None:
    fatal = tmp_path / "fatal"
    options = {"split": "train", "fatal": str(fatal)}
    with ProcessPoolRunner(f"tests.toy:{FAULTY}", options, 2, 1) as pool:

        class Ending(type(agent)):  # type: ignore[misc]
            def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> Any:
                assert all(episode.info["turn"] == len(episode.recorder.turns) for episode in episodes)
                replies = super().act(episodes, runner)
                fatal.touch()
                for pid in pool.worker_pids:
                    os.kill(pid, signal.SIGKILL)
                return replies

        agent.__class__ = Ending
        with pytest.raises(WorkerError):
            play_episodes(EnvHandle.make(FAULTY, {"split": "train"}), pool, agent, requests(2))


def test_an_agent_sees_the_seed_that_was_drawn_where_none_was_named() -> None:
    seen = []

    class Noting(RandomAgent):
        def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
            seen.extend((episode.index, episode.request.seed) for episode in episodes)
            return super().act(episodes, runner)

    agent = Noting(EnvHandle.make(FAULTY, {}).env.reply_grammar)
    result = play(agent, [EpisodeRequest("door/3")] * 3)
    assert set(seen) == {(index, episode.seed) for index, episode in enumerate(result.whole)}
    assert len({episode.seed for episode in result.whole}) == 3


def test_an_agent_that_never_answers_is_refused() -> None:
    class Silent(Scripted):
        def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> Any:
            return [None] * len(episodes)

    with pytest.raises(ConfigError, match="got no reply at all"):
        play(Silent([]), requests(2))


def test_never_more_episodes_than_slots_run() -> None:
    agent = Scripted(["<action>up</action>", "<action>open</action>"])
    assert len(play(agent, requests(7), 3).whole) == 7
    assert agent.most == 3


def test_episodes_say_where_they_come_from() -> None:
    (first, *_) = play(oracle(), requests(3), policy_version=4).whole
    assert (first.env_id, first.split, first.group_id, first.policy_version, first.seed) == (
        FAULTY,
        "train",
        "g0",
        4,
        0,
    )
    assert first.env_kwargs == {"split": "train"}


def test_a_failure_of_the_world_ends_its_episode_only() -> None:
    class Breaks(Scripted):
        def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
            return [Reply(f"<action>{'break' if e.index == 1 else 'open'}</action>") for e in episodes]

    told: list[int] = []
    result = play(Breaks([]), requests(5), 2, on_episode=lambda index, episode: told.append(index))
    assert [episode is None for episode in result.episodes] == [False, True, False, False, False]
    assert "a fault deep inside" in result.errors[1]
    assert sorted(told) == [0, 2, 3, 4]


def test_an_agent_may_stop_an_episode_and_it_keeps_its_turns() -> None:
    (episode,) = play(Scripted(["<action>up</action>", "<action>say x</action>", None]), requests(1)).whole
    assert episode.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert [turn.action for turn in episode.turns] == ["up", "say x"]
    assert episode.reward == pytest.approx(-0.2)


def test_stopping_leaves_unfinished_episodes_out() -> None:
    asked = iter([False, False, False, True])
    agent = Scripted(["<action>up</action>", "<action>open</action>"])
    result = play(agent, requests(6), 2, should_stop=lambda: next(asked))
    finished = [index for index, episode in enumerate(result.episodes) if episode is not None]
    assert finished == [0, 1]
    assert result.errors == {}


def test_replies_without_an_action_count_as_turns_and_say_why() -> None:
    (episode,) = play(Scripted(["hello", "<action>open</action>"]), requests(1)).whole
    assert [turn.valid_format for turn in episode.turns] == [False, True]
    assert episode.turns[0].action is None
    assert "<action>" in episode.turns[0].reason
    assert episode.turns[0].reason in episode.turns[1].observation


def test_a_fault_of_the_request_is_raised() -> None:
    with pytest.raises(UnknownTaskError, match="door/nothing"):
        play(oracle(), [EpisodeRequest("door/nothing", 0), *requests(2)])
    with pytest.raises(ConfigError, match="no environment"):
        EnvHandle.make("Dor-v0", {})


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([Reply("<action>open</action>")], "got 1 of them"),
        (["<action>open</action>"] * 3, "got a str among them"),
        (None, "got NoneType"),
    ],
)
def test_an_agent_that_returns_anything_but_replies_is_told_what_act_must_return(returned: Any, said: str) -> None:
    class Wrong(Scripted):
        def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> Any:
            return returned

    message = rf"Wrong.act must return a list of one Reply or None for each of .*{said} \(.*test_driver.py:\d+"
    with pytest.raises(ConfigError, match=message):
        play(Wrong([]), requests(3))


def test_chance_repeats_from_the_seed_whatever_the_slots() -> None:
    agent = RandomAgent(EnvHandle.make(FAULTY, {}).env.reply_grammar)
    one, two = (play(agent, requests(6), slots).whole for slots in (1, 4))
    assert [[t.action for t in e.turns] for e in one] == [[t.action for t in e.turns] for e in two]
    assert len({tuple(t.action for t in e.turns) for e in one}) > 1

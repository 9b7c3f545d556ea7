"""Episode records: recording, files, replay."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.core.info import FinishReason, StopReason
from agent_gym.core.replies import RejectedReply, ReplyMode, parse_reply
from agent_gym.play.episode import Episode, EpisodeRecorder, EpisodeWriter, Turn, read_episodes
from agent_gym.play.replay import replay
from agent_gym.play.reply import Reply, Sample
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import InProcessRunner
from agent_gym.support.errors import AgentGymWarning, DataError, ReplayMismatchError, UnknownTaskError

ENV_ID = "tests.toy:toy/Door-v0"
NO_SURROGATES = st.characters(codec="utf-8")
TEXT = st.text(NO_SURROGATES | st.sampled_from("\u2028\x85\x00\r\n√你"), max_size=12)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TURNS = st.builds(
    Turn,
    observation=TEXT,
    reply=TEXT,
    action=st.none() | TEXT,
    reward=NUMBER,
    thought=TEXT,
    valid_format=st.booleans(),
    reason=TEXT,
    valid_action=st.booleans(),
    anchor=TEXT,
    finish_reason=st.sampled_from(FinishReason),
    seconds=NUMBER,
    prompt_ids=st.none() | st.lists(st.integers(0), max_size=3).map(tuple),
    reply_ids=st.none() | st.lists(st.integers(0), max_size=3).map(tuple),
    logprobs=st.none() | st.lists(NUMBER, max_size=3).map(tuple),
    entropies=st.none() | st.lists(NUMBER, max_size=3).map(tuple),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
EPISODES = st.builds(
    Episode,
    env_id=TEXT,
    env_kwargs=st.dictionaries(TEXT, VALUES, max_size=3),
    seed=st.none() | st.integers(0, 2**63),
    task_id=TEXT,
    task_type=TEXT,
    goal=TEXT,
    turns=st.lists(TURNS, max_size=3).map(tuple),
    final_observation=TEXT,
    success=st.booleans(),
    score=NUMBER,
    stop_reason=st.sampled_from(StopReason),
    reward=NUMBER,
    split=TEXT,
    group_id=st.none() | TEXT,
    policy_version=st.none() | st.integers(0),
    started_at=st.none() | TEXT,
)


PLAIN = EpisodeRequest(seed=7)


def played(replies: list[str] | None = None, start: EpisodeRequest = PLAIN) -> Episode:
    """Play replies in the toy world (the oracle's when None) and record them."""
    with InProcessRunner((ENV_ID, {"max_turns": 20}), 1) as runner:
        first = runner.reset({0: start})[0]
        recorder = EpisodeRecorder(ENV_ID, {"max_turns": 20}, runner.request_of(0).seed, first, split="train")
        pending = list(replies or [])
        while not recorder.over and (replies is None or pending):
            reply = pending.pop(0) if pending else f"<think>hm</think><action>{runner.oracle([0])[0]}</action>"
            parsed = parse_reply(reply, mode=ReplyMode.LENIENT)
            action = RejectedReply(reply, parsed.reason) if parsed.action is None else parsed.action
            sample = Sample((1, 2), (-0.5, 0.0), FinishReason.STOP)
            recorder.add(Reply(reply, sample=sample), parsed, runner.step({0: action})[0])
        return recorder.finish(StopReason.CONTEXT_OVERFLOW)


class TestRecording:
    def test_turns_hold_what_the_agent_saw_and_where_it_acted(self) -> None:
        episode = played()
        assert (episode.success, episode.stop_reason, episode.score) == (True, StopReason.SUCCESS, 1.0)
        assert episode.reward == pytest.approx(sum(turn.reward for turn in episode.turns))
        seen = [turn.observation for turn in episode.turns] + [episode.final_observation]
        assert seen[0].startswith("The ")
        assert seen[-1] == "The door opens: é √ 你."
        assert all(str(turn.anchor.split()[-1]) in turn.observation for turn in episode.turns)
        assert {turn.thought for turn in episode.turns} == {"hm"}

    def test_a_stop_from_outside_counts_only_while_the_environment_runs(self) -> None:
        assert played(["<action>say a</action>"]).stop_reason is StopReason.CONTEXT_OVERFLOW
        assert played().stop_reason is StopReason.SUCCESS

    def test_a_reply_without_action_is_a_turn_with_its_reason(self) -> None:
        turn = played(["hello"]).turns[0]
        assert (turn.action, turn.valid_format, turn.valid_action) == (None, False, False)
        assert "no action" in turn.reason

    def test_arguments_that_a_file_cannot_hold_are_named(self) -> None:
        with pytest.raises(DataError, match=r"env_kwargs\.tasks.*object"):
            dataclasses.replace(played([]), env_kwargs={"tasks": object()})

    def test_paths_and_tuples_take_their_json_form(self) -> None:
        episode = dataclasses.replace(played([]), env_kwargs={"levels": Path("a/b"), "size": (6, 6)})
        assert episode.env_kwargs == {"levels": "a/b", "size": [6, 6]}


class TestJsonLines:
    @given(episode=EPISODES)
    def test_a_line_gives_back_the_episode_exactly(self, episode: Episode) -> None:
        line = episode.to_json()
        assert "\n" not in line
        assert Episode.from_json(line.encode("utf-8")) == episode

    def test_half_a_surrogate_pair_survives(self) -> None:
        episode = dataclasses.replace(played([]), goal="\ud800 é")
        assert Episode.from_json(episode.to_json().encode("utf-8")) == episode

    def test_text_is_readable_in_the_file(self) -> None:
        assert "é √ 你" in played().to_json()

    @settings(max_examples=10)
    @given(bad=st.sampled_from([float("nan"), float("inf"), float("-inf")]))
    def test_numbers_that_are_not_finite_are_refused_and_named(self, bad: float) -> None:
        episode = played(["<action>say a</action>"])
        faulty = dataclasses.replace(episode.turns[0], logprobs=(0.0, bad))
        with pytest.raises(DataError, match="logprobs of turn 0"):
            dataclasses.replace(episode, turns=(faulty,)).to_json()
        with pytest.raises(DataError, match="its reward"):
            dataclasses.replace(episode, reward=bad).to_json()

    def test_a_newer_schema_says_what_to_install(self) -> None:
        row = json.loads(played([]).to_json())
        with pytest.raises(DataError, match=r"schema 2, .* reads schema 1; install .*9\.9"):
            Episode.from_json(json.dumps({**row, "schema_version": 2, "package_version": "9.9"}))

    @pytest.mark.parametrize(
        "change",
        [{"turns": 3}, {"turns": [{}]}, {"stop_reason": "bored"}, {"extra": 1}, {"turns": [{"finish": 1}]}],
    )
    def test_rows_of_another_shape_are_refused(self, change: dict[str, object]) -> None:
        row = json.loads(played([]).to_json())
        with pytest.raises(DataError, match="not an episode of schema 1"):
            Episode.from_json(json.dumps({**row, **change}))

    @pytest.mark.parametrize("line", ["", "{", "[]", "3", "{}", '{"schema": 1}', b"\xff"])
    def test_other_lines_are_refused(self, line: str | bytes) -> None:
        with pytest.raises(DataError):
            Episode.from_json(line)


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "runs" / "episodes.jsonl"
        with EpisodeWriter(path) as writer:
            writer.write(played())
            writer.write(played(["hello"]))
        return path

    def test_episodes_are_appended_and_read_in_order(self, path: Path) -> None:
        with EpisodeWriter(path) as writer:
            writer.write(played([]))
            assert [len(e.turns) for e in read_episodes(path)] == [len(played().turns), 1, 0], "flushed at once"

    @pytest.mark.parametrize("cut", [1, 2, 50])
    def test_a_line_that_a_killed_run_left_is_skipped_then_removed(self, path: Path, cut: int) -> None:
        whole = path.read_bytes()
        path.write_bytes(whole + played().to_json().encode()[:-cut])
        with pytest.warns(AgentGymWarning, match="line 3: the last line is incomplete"):
            assert len(list(read_episodes(path))) == 2
        with EpisodeWriter(path) as writer:
            assert path.read_bytes() == whole
            writer.write(played())
        assert len(list(read_episodes(path))) == 3

    def test_a_last_line_that_lacks_only_its_break_is_kept(self, path: Path) -> None:
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
        assert len(list(read_episodes(path))) == 2
        with EpisodeWriter(path) as writer:
            writer.write(played())
        assert len(list(read_episodes(path))) == 3

    def test_a_file_that_holds_nothing_but_a_torn_long_line_becomes_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "torn.jsonl"
        path.write_bytes(b'{"goal": "' + b"a" * 200_000)
        EpisodeWriter(path).close()
        assert path.read_bytes() == b""

    def test_a_faulty_line_in_the_middle_is_named_with_the_remedy(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + b"{oops}\n" + lines[1])
        with pytest.raises(DataError, match=r"episodes\.jsonl, line 2: .*remove the line"):
            list(read_episodes(path))

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"none\.jsonl"):
            list(read_episodes(tmp_path / "none.jsonl"))


class TestReplay:
    @pytest.mark.parametrize("start", [EpisodeRequest(seed=7), EpisodeRequest("door/33", 8)])
    @pytest.mark.parametrize("replies", [None, ["hello", "<action>sing</action>", "<action>up</action>"], []])
    def test_a_recorded_episode_gives_the_same_again(
        self, replies: list[str] | None, start: EpisodeRequest
    ) -> None:
        episode = played(replies, start)
        report = replay(Episode.from_json(episode.to_json()))
        assert report.matches, report.mismatch
        assert report.turns == len(episode.turns)
        assert report.reward == pytest.approx(episode.reward)
        report.check()

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("reward", 5.0, "turn 2, reward differs: recorded 5.0, replayed -0.1"),
            ("observation", "The dial", "turn 2, observation differs: recorded 'The dial'"),
            ("valid_action", False, "turn 2, valid_action differs"),
        ],
    )
    def test_the_first_difference_is_described(self, name: str, value: Any, expected: str) -> None:
        episode = played(["<action>say a</action>"] * 3)
        turns = list(episode.turns)
        turns[1] = dataclasses.replace(turns[1], **{name: value})
        report = replay(dataclasses.replace(episode, turns=tuple(turns)))
        assert expected in report.mismatch
        assert report.turns == 1
        with pytest.raises(ReplayMismatchError, match="turn 2"):
            report.check()

    @pytest.mark.parametrize(
        ("name", "value"),
        [("final_observation", "x"), ("success", False), ("score", 0.5), ("stop_reason", StopReason.MAX_TURNS)],
    )
    def test_the_end_is_compared(self, name: str, value: object) -> None:
        report = replay(dataclasses.replace(played(), **{name: value}))  # type: ignore[arg-type]
        assert report.mismatch.startswith("at the end, ")
        assert name.replace("_", " ") in report.mismatch

    def test_turns_after_the_end_are_a_difference(self) -> None:
        episode = played()
        longer = dataclasses.replace(episode, turns=(*episode.turns, episode.turns[-1]))
        assert "had ended before it (success)" in replay(longer).mismatch

    def test_a_task_that_is_gone_is_named(self) -> None:
        with pytest.raises(UnknownTaskError, match="door/999"):
            replay(dataclasses.replace(played([]), task_id="door/999"))

    def test_a_custom_task_needs_its_record(self) -> None:
        env = gym.make("toy/Door-v0")
        first = env.reset(seed=3, options={"task": {"target": 4}})
        assert first[1]["task_id"].startswith("custom/")
        episode = dataclasses.replace(
            played([]), seed=3, task_id=first[1]["task_id"], final_observation=first[0], turns=()
        )
        with pytest.raises(DataError, match="give its record"):
            replay(episode, env)
        assert replay(episode, env, task={"target": 4}).matches

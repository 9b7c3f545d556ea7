"""Rollouts record exactly what was sampled, and never cut anything silently."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from agent_gym.core.info import FinishReason, StopReason
from agent_gym.core.prompts import ContextMode
from agent_gym.play.request import EpisodeRequest
from tests.trainers.loop import door_encoder, door_split, play, script, spelled
from tests.trainers.toys import tiny_policy
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.sampling import SamplingSettings
from trainers.update.batch import build_batch

UP, SAY = "<action>up</action>", "<action>say hello</action>"
MODES = list(ContextMode)


@pytest.mark.parametrize("context", MODES)
def test_training_ids_are_the_sampled_ids_even_of_another_tokenisation(context: ContextMode) -> None:
    policy = tiny_policy()
    sampler = script(policy, [UP, SAY], encode=lambda text: spelled(policy, text))
    result = play(door_split(max_turns=4), door_encoder(policy, context), sampler)
    (episode,) = result.whole
    assert [turn.action for turn in episode.turns] == ["up", "say hello"] * 2
    said = [(*spelled(policy, text), policy.end_id) for text in (UP, SAY)] * 2
    assert [turn.reply_ids for turn in episode.turns] == said
    assert [turn.prompt_ids for turn in episode.turns] == sampler.prompts
    batch = build_batch([[episode]], context, 0.1)
    sampled = [tuple(np.array(row.ids)[np.array(row.mask)].tolist()) for row in batch.rows]
    if context is ContextMode.WINDOW:
        assert sampled == said
        assert [row.ids for row in batch.rows] == [p + s for p, s in zip(sampler.prompts, said, strict=True)]
    else:
        assert sampled == [tuple(token for ids in said for token in ids)]
        assert batch.rows[0].ids == sampler.prompts[-1] + said[-1]


@pytest.mark.parametrize("context", MODES)
def test_every_token_of_a_reply_carries_its_turn_and_the_samplers_log_probability(context: ContextMode) -> None:
    policy = tiny_policy()
    (episode,) = play(door_split(max_turns=3), door_encoder(policy, context), script(policy, [UP, SAY])).whole
    batch = build_batch([[episode]], context, 0.1)
    found: dict[int, list[float]] = {}
    for row in batch.rows:
        assert row.segments is not None
        assert row.logprobs is not None
        for on, segment, logprob in zip(row.mask, row.segments, row.logprobs, strict=True):
            assert on == (segment >= 0)
            if on:
                found.setdefault(segment, []).append(logprob)
            else:
                assert logprob == 0.0
    assert found == {number: list(turn.logprobs or ()) for number, turn in enumerate(episode.turns)}


def test_full_context_prompts_grow_from_the_ids_so_far() -> None:
    policy = tiny_policy()
    sampler = script(policy, [UP, "garbage", SAY], encode=lambda text: spelled(policy, text))
    (episode,) = play(door_split(max_turns=6), door_encoder(policy, ContextMode.FULL), sampler).whole
    for earlier, later in pairwise(episode.turns):
        assert earlier.prompt_ids is not None
        assert earlier.reply_ids is not None
        assert later.prompt_ids is not None
        so_far = earlier.prompt_ids + earlier.reply_ids
        assert later.prompt_ids[: len(so_far)] == so_far
        assert later.prompt_ids[len(so_far)] != policy.end_id  # not doubled


@pytest.mark.parametrize("context", MODES)
def test_a_cut_reply_is_marked_and_the_episode_goes_on(context: ContextMode) -> None:
    policy = tiny_policy()
    sampler = script(policy, ["<action>u…", UP])
    (episode,) = play(door_split(max_turns=4), door_encoder(policy, context), sampler).whole
    reasons = [turn.finish_reason for turn in episode.turns]
    assert reasons == [FinishReason.MAX_TOKENS, FinishReason.STOP] * 2
    assert [turn.valid_format for turn in episode.turns] == [False, True] * 2
    assert episode.stop_reason is StopReason.MAX_TURNS
    assert all(policy.end_id not in (turn.reply_ids or ()) for turn in episode.turns[::2])
    if context is ContextMode.FULL:
        first, second = episode.turns[:2]
        assert first.prompt_ids is not None
        assert first.reply_ids is not None
        assert second.prompt_ids is not None
        glue = second.prompt_ids[len(first.prompt_ids) + len(first.reply_ids) :]
        assert glue[0] == policy.end_id  # the template's, with mask 0
        (row,) = build_batch([[episode]], context, 0.1).rows
        assert not row.mask[len(first.prompt_ids) + len(first.reply_ids)]


def test_the_text_of_a_reply_is_without_its_end_token() -> None:
    policy = tiny_policy()
    sampler = script(policy, [UP, "<action>u…"])
    (episode,) = play(door_split(max_turns=2), door_encoder(policy, ContextMode.WINDOW), sampler).whole
    assert [turn.reply for turn in episode.turns] == [UP, "<action>u"]


def test_a_context_that_overflows_ends_the_episode_and_keeps_its_reward() -> None:
    policy = tiny_policy()
    sampler = script(policy, [UP])
    (long,) = play(door_split(max_turns=6), door_encoder(policy, ContextMode.FULL), sampler).whole
    third = long.turns[2]
    assert third.prompt_ids is not None
    encoder = door_encoder(policy, ContextMode.FULL, limit=len(third.prompt_ids))
    (episode,) = play(door_split(max_turns=6), encoder, script(policy, [UP])).whole
    assert episode.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert len(episode.turns) == 3
    assert episode.reward == pytest.approx(sum(turn.reward for turn in long.turns[:3]))
    assert [turn.prompt_ids for turn in episode.turns] == [turn.prompt_ids for turn in long.turns[:3]]
    assert len(build_batch([[episode]], ContextMode.FULL, 0.1).table) == 3


@pytest.mark.parametrize("context", MODES)
def test_a_first_prompt_that_does_not_fit_gives_an_episode_without_turns(context: ContextMode) -> None:
    policy = tiny_policy()
    sampler = script(policy, [UP])
    (episode,) = play(door_split(), door_encoder(policy, context, limit=5), sampler).whole
    assert episode.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert episode.turns == ()
    assert sampler.prompts == []
    batch = build_batch([[episode]], context, 0.1)
    assert (len(batch.table), len(batch.rows)) == (0, 0)


def test_episodes_that_overflow_leave_the_others_alone() -> None:
    policy = tiny_policy()
    sampler = script(policy, [UP])
    plain = play(
        door_split(slots=2, max_turns=5),
        door_encoder(policy, ContextMode.FULL),
        sampler,
        [EpisodeRequest(f"door/{number}", number) for number in range(6)],
    ).whole
    limit = max(len(turn.prompt_ids or ()) for turn in plain[0].turns) - 1
    tight = play(
        door_split(slots=2, max_turns=5),
        door_encoder(policy, ContextMode.FULL, limit=limit),
        script(policy, [UP]),
        [EpisodeRequest(f"door/{number}", number) for number in range(6)],
    )
    assert [episode.task_id for episode in tight.whole] == [episode.task_id for episode in plain]
    assert {episode.stop_reason for episode in tight.whole} <= set(StopReason)
    assert tight.whole[0].stop_reason is StopReason.CONTEXT_OVERFLOW
    assert tight.errors == {}


def test_a_greedy_policy_plays_alike_whatever_the_number_of_slots() -> None:
    policy = tiny_policy()
    encoder = door_encoder(policy, ContextMode.WINDOW, compact=True)
    requests = [EpisodeRequest(f"door/{number}", number) for number in range(5)]
    settings = SamplingSettings(max_reply_tokens=4, greedy=True)
    few, many = (
        play(door_split(slots, max_turns=3), encoder, HFSampler(policy), requests, settings).whole
        for slots in (2, 5)
    )
    assert [[t.reply_ids for t in e.turns] for e in few] == [[t.reply_ids for t in e.turns] for e in many]


def test_sampled_replies_repeat_from_the_generators_seed() -> None:
    policy = tiny_policy()
    encoder = door_encoder(policy, ContextMode.WINDOW, compact=True)
    requests = [EpisodeRequest("door/1", 7)] * 3
    settings = SamplingSettings(max_reply_tokens=4)
    one, two = (
        play(door_split(3, max_turns=3), encoder, HFSampler(policy), requests, settings).whole for _ in range(2)
    )
    ids = [[turn.reply_ids for turn in episode.turns] for episode in one]
    assert ids == [[turn.reply_ids for turn in episode.turns] for episode in two]
    assert len({tuple(episode) for episode in ids}) == 3  # equal starts, independent draws
    assert len({episode.turns[0].prompt_ids for episode in one}) == 1

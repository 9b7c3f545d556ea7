"""Prompts of sampled turns are made again without goal and history, for the turns that are asked for."""

from __future__ import annotations

import functools

import pytest

from agent_gym.core.prompts import ContextMode, Segment
from agent_gym.play.episode import Episode, Turn
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.errors import DataError
from tests.trainers.loop import door_encoder, door_split, play, script
from tests.trainers.toys import tiny_policy
from trainers.policy.policy import Policy
from trainers.rollout.masked_prompts import PromptSources

MASK = (Segment.GOAL, Segment.HISTORY)
REPLIES = ["<action>up</action>", "nonsense", "<action>say hello</action>", "<action>down</action>"]


def ids_of(turn: Turn) -> tuple[int, ...]:
    assert turn.prompt_ids is not None
    return turn.prompt_ids


@functools.cache
def played(limit: int = 10_000) -> tuple[Policy, PromptSources, list[Episode]]:
    policy = tiny_policy()
    encoder = door_encoder(policy, ContextMode.WINDOW, limit=limit)
    encoder.sources = PromptSources()
    requests = [EpisodeRequest(f"door/{n}", n) for n in (3, 4)]
    result = play(door_split(), encoder, script(policy, REPLIES), requests)
    return policy, encoder.sources, result.whole


def test_every_prompt_of_a_rollout_can_be_masked_to_the_text_without_goal_and_history() -> None:
    policy, sources, episodes = played()
    for episode in episodes:
        for turn in episode.turns:
            ids = sources.masked(ids_of(turn), MASK)
            full, text = policy.decode(ids_of(turn)), policy.decode(ids)
            assert episode.goal in full
            assert episode.goal not in text
            assert "saw" not in text
            for kept in ("You stand before a door", turn.observation, "Actions:", "Reply with"):
                assert kept in text
            # What is left is the full prompt with pieces cut out, in its order.
            start, end = (
                full.index("Goal:"),
                full.index(turn.observation, full.rindex("did") if "did" in full else 0),
            )
            assert text == full[:start] + full[end:]


@pytest.mark.parametrize(
    ("mask", "goal", "history"),
    [((Segment.GOAL,), False, True), ((Segment.HISTORY,), True, False), ((), True, True)],
)
def test_parts_of_the_mask(mask: tuple[Segment, ...], goal: bool, history: bool) -> None:
    policy, sources, episodes = played()
    turn = episodes[0].turns[3]
    text = policy.decode(sources.masked(ids_of(turn), mask))
    assert (episodes[0].goal in text, "saw" in text) == (goal, history)
    if not mask:
        assert sources.masked(ids_of(turn), mask) == ids_of(turn)


def test_a_prompt_that_dropped_history_to_fit_is_masked_as_it_was_shown() -> None:
    _, _, whole = played()
    longest = max(len(ids_of(turn)) for turn in whole[0].turns)
    policy, sources, episodes = played(limit=longest - 1)
    shown = [policy.decode(ids_of(turn)).count("saw") for turn in episodes[0].turns]
    kept = [policy.decode(sources.masked(ids_of(turn), (Segment.GOAL,))).count("saw") for turn in episodes[0].turns]
    assert kept == shown
    assert 1 in shown[2:]


def test_prompts_of_an_earlier_iteration_are_forgotten() -> None:
    played.cache_clear()
    _, sources, episodes = played()
    ids = ids_of(episodes[0].turns[0])
    assert ids in sources
    sources.clear()
    played.cache_clear()
    assert len(sources) == 0
    with pytest.raises(DataError, match=f"a prompt of {len(ids)} tokens is none of the 0"):
        sources.masked(ids, MASK)

"""The two tables of a batch: turn rows with penalties, token rows whose segments point into them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_gym.core.prompts import ContextMode
from agent_gym.play.episode import Episode
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.errors import DataError
from tests.trainers.loop import door_encoder, door_split, play, script
from tests.trainers.toys import tiny_policy
from trainers.update.batch import build_batch

REPLIES = ["<action>up</action>", "no tag", "<action>fly</action>"]


def groups(context: ContextMode) -> list[list[Episode]]:
    policy = tiny_policy()
    requests = [EpisodeRequest("door/1", 5), EpisodeRequest("door/1", 5), EpisodeRequest("door/2", 6)]
    split = door_split(max_turns=3)
    first, second, third = play(split, door_encoder(policy, context), script(policy, REPLIES), requests).whole
    return [[first, second], [third]]


@pytest.mark.parametrize("context", list(ContextMode))
def test_turn_rows_follow_groups_episodes_and_turns(context: ContextMode) -> None:
    batch = build_batch(groups(context), context, 0.1)
    assert batch.table.group.tolist() == [0] * 6 + [1] * 3
    assert batch.table.episode.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert batch.table.turn.tolist() == [0, 1, 2] * 3
    assert batch.table.penalty.tolist() == pytest.approx([0.0, 0.1, 0.1] * 3)  # format, then action
    turns = [turn for episode in batch.episodes for turn in episode.turns]
    assert batch.table.reward.tolist() == [turn.reward for turn in turns]
    assert batch.table.n_tokens.tolist() == [len(turn.reply_ids or ()) for turn in turns]
    assert batch.table.anchor == tuple(turn.anchor for turn in turns)


@pytest.mark.parametrize(("context", "rows"), [(ContextMode.WINDOW, 9), (ContextMode.FULL, 3)])
def test_a_row_is_a_turn_or_a_whole_episode(context: ContextMode, rows: int) -> None:
    batch = build_batch(groups(context), context, 0.1)
    assert len(batch.rows) == rows
    segments = [segment for row in batch.rows for segment in sorted(set(row.segments or ()) - {-1})]
    assert segments == list(range(9))
    assert all(row.episode == batch.table.episode[max(row.segments or ())] for row in batch.rows)


def test_a_prompt_that_does_not_go_on_from_the_ids_so_far_is_refused() -> None:
    (episode, _), _ = groups(ContextMode.FULL)
    second = episode.turns[1]
    assert second.prompt_ids is not None
    other = replace(second, prompt_ids=(second.prompt_ids[0] + 1, *second.prompt_ids[1:]))
    broken = replace(episode, turns=(episode.turns[0], other, episode.turns[2]))
    with pytest.raises(DataError, match=r"turn 1.*does not start with"):
        build_batch([[broken]], ContextMode.FULL, 0.1)


def test_turns_without_ids_are_refused() -> None:
    (episode, _), _ = groups(ContextMode.WINDOW)
    bare = replace(episode, turns=tuple(replace(turn, reply_ids=None) for turn in episode.turns))
    with pytest.raises(DataError, match="reply_ids"):
        build_batch([[bare]], ContextMode.WINDOW, 0.1)

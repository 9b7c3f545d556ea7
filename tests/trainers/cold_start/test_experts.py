"""The cold start: successful oracle episodes only, prompts as the policy will see them."""

from __future__ import annotations

import pytest

from agent_gym.core.info import StopReason
from agent_gym.core.prompts import ContextMode
from agent_gym.play.driver import EnvHandle
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import InProcessRunner
from agent_gym.support.errors import DataError
from tests.trainers.loop import door_builder, door_encoder, door_split
from tests.trainers.toys import tiny_policy
from trainers.cold_start.experts import ExpertEpisode, corpus, expert_rows, play_expert

REQUESTS = [EpisodeRequest(f"door/{number}", number) for number in range(12)]


def experts(max_turns: int = 12) -> list[ExpertEpisode]:
    split = door_split(5, max_turns=max_turns)
    with split.runner:
        return play_expert(split.handle, split.runner, REQUESTS, 0.9)


def test_only_episodes_that_score_enough_are_kept() -> None:
    every, some = experts(), experts(max_turns=3)
    assert len(every) == len(REQUESTS)
    assert 0 < len(some) < len(REQUESTS)
    assert all(expert.episode.success for expert in some)


def test_an_expert_that_never_succeeds_is_an_error() -> None:
    split = door_split(5)
    with split.runner, pytest.raises(DataError, match="none of the 12 oracle episodes"):
        play_expert(split.handle, split.runner, REQUESTS, 1.0)


@pytest.mark.parametrize("context", list(ContextMode))
def test_rows_hold_the_reply_with_the_tokenizers_end_token(context: ContextMode) -> None:
    policy = tiny_policy()
    policy.eos_ids = policy.eos_ids | {0}  # a second end token, with a smaller id
    found = experts()
    rows = expert_rows(found, door_encoder(policy, context), policy)
    turns = [turn for expert in found for turn in expert.turns]
    assert len(rows) == len(turns)
    for row, turn in zip(rows, turns, strict=True):
        reply = tuple(token for token, on in zip(row.ids, row.mask, strict=True) if on)
        assert reply == (*policy.encode(turn.reply), policy.end_id)
        assert row.ids[-len(reply) :] == reply


def test_window_rows_show_the_history_that_a_policy_would_have_seen() -> None:
    policy = tiny_policy()
    found = next(expert for expert in experts() if len(expert.turns) >= 3)
    rows = expert_rows([found], door_encoder(policy, ContextMode.WINDOW), policy)
    text = policy.decode(rows[2].ids)
    assert f"did {found.turns[0].action}" in text
    assert f"did {found.turns[1].action}" in text


def test_prompts_that_do_not_fit_are_left_out_as_in_a_rollout() -> None:
    policy = tiny_policy()
    assert expert_rows(experts(), door_encoder(policy, ContextMode.WINDOW, limit=5), policy) == []


def test_the_corpus_holds_every_prompt_and_reply() -> None:
    found = experts()
    texts = corpus(found, door_builder())
    assert len(texts) == 2 * sum(len(expert.turns) for expert in found)
    assert found[0].turns[0].reply in texts


def test_a_straying_demonstrator_takes_random_actions_and_its_lost_episodes_are_left_out() -> None:
    handle = EnvHandle.make("Sokoban-v0", {})
    requests = [EpisodeRequest(handle.env.tasks.ids[number], number) for number in range(60)]

    def actions(noise: float) -> dict[str, list[str | None]]:
        with InProcessRunner((handle.env_id, handle.options), 60) as runner:
            found = play_expert(handle, runner, requests, 0.9, noise=noise)
        return {expert.episode.task_id: [turn.action for turn in expert.turns] for expert in found}

    steady, straying = actions(0.0), actions(0.4)
    assert len(steady) == 60
    assert 0 < len(straying) < 60
    assert straying == actions(0.4)
    assert sum(steady[task] != straying[task] for task in straying) > len(straying) // 3


def test_of_a_demonstrator_that_gives_up_only_what_it_did_before_is_cloned() -> None:
    handle = EnvHandle.make("Sokoban-v0", {})
    requests = [EpisodeRequest(handle.env.tasks.ids[number], number) for number in range(30)]
    with InProcessRunner((handle.env_id, handle.options), 30) as runner:
        found = play_expert(handle, runner, requests, -1.0, noise=0.6)
    gave_up = [expert for expert in found if expert.episode.stop_reason is StopReason.ABORTED]
    assert len(gave_up) > 3
    assert all(turn.reply for expert in found for turn in expert.turns)
    assert all(len(expert.turns) == len(expert.episode.turns) for expert in found if expert not in gave_up)


@pytest.mark.parametrize(("noise", "min_score"), [(0.0, -1.0), (0.01, 0.0)])
def test_a_task_that_the_expert_cannot_solve_is_left_out(noise: float, min_score: float) -> None:
    levels = ["######\n#@ $.#\n######", "######\n#$@ .#\n######", "######\n#@$ .#\n######"]
    handle = EnvHandle.make("Sokoban-v0", {"levels": levels})
    requests = [EpisodeRequest(f"list#{number}", number) for number in range(3)]
    with InProcessRunner((handle.env_id, handle.options), 3) as runner:
        found = play_expert(handle, runner, requests, min_score, noise=noise)
        assert [expert.episode.task_id for expert in found] == ["list#0", "list#2"]
        with pytest.raises(DataError, match=r"none of the 1 oracle episodes .*deadlocked"):
            play_expert(handle, runner, requests[1:2], -1.0)

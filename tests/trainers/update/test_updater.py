"""One optimiser step is one optimiser step however it is cut, and broken ones are left out and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agent_gym.core.prompts import ContextMode
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.policy import Policy
from trainers.policy.token_rows import NO_SEGMENT, TokenRow
from trainers.settings.algorithm import ALGORITHMS, AlgorithmConfig, ImportanceLevel
from trainers.settings.optim import OptimSettings
from trainers.update.batch import Batch
from trainers.update.schedules import LearningRate
from trainers.update.scoring_pass import turn_entropies
from trainers.update.token_batch import turns
from trainers.update.turn_table import RowTable
from trainers.update.types import MicroStep, StepReport
from trainers.update.updater import Updater

LENGTHS = [(5, 3), (9, 1), (4, 6), (12, 2), (7, 4), (3, 5), (8, 2), (6, 6)]
EPISODES = [0, 0, 0, 1, 1, 2, 3, 3]
ADVANTAGES = np.array([1.0, -0.5, 0.3, -1.2, 0.8, 2.0, -0.7, 0.0])
BAND = {"eps_low": 0.2, "eps_high": 0.2, "kl_coef": 0.01}


def rows_of(policy: Policy, context: ContextMode) -> list[TokenRow]:
    """Return eight turns of four episodes: a row a turn, or a row an episode."""
    turns = [
        replace(row, episode=episode, logprobs=tuple(-1.0 * on for on in row.mask))
        for row, episode in zip(random_rows(policy, LENGTHS, seed=3), EPISODES, strict=True)
    ]
    if context is ContextMode.WINDOW:
        return turns
    joined = []
    for episode in sorted(set(EPISODES)):
        mine = [row for row in turns if row.episode == episode]
        joined.append(
            TokenRow(
                ids=tuple(token for row in mine for token in row.ids),
                mask=tuple(on for row in mine for on in row.mask),
                segments=tuple(segment for row in mine for segment in row.segments or ()),
                episode=episode,
                logprobs=tuple(value for row in mine for value in row.logprobs or ()),
            )
        )
    return joined


def batch_of(policy: Policy, context: ContextMode = ContextMode.WINDOW) -> Batch:
    count = len(LENGTHS)
    table = RowTable(
        group=np.zeros(count, int),
        episode=np.array(EPISODES),
        turn=np.array([0, 1, 2, 0, 1, 0, 0, 1]),
        reward=np.zeros(count),
        penalty=np.zeros(count),
        anchor=("",) * count,
        n_tokens=np.array([reply for _, reply in LENGTHS]),
    )
    return Batch((), table, tuple(rows_of(policy, context)))


def make(
    algorithm: AlgorithmConfig, *, reference: bool = True, temperature: float = 1.0, **settings: float
) -> Updater:
    """Return an updater; plain SGD, so that new weights show the gradient to its last digit."""
    policy = tiny_policy()
    values = {"learning_rate": 0.1, "grad_clip": 1e9, **settings}
    optimizer = torch.optim.SGD(policy.parameters(), lr=values["learning_rate"])
    scheduler = LearningRate(optimizer, optimizer.param_groups[0]["lr"])
    other = tiny_policy() if reference else None
    if other is not None:
        with torch.no_grad():
            for weight in other.parameters():
                weight.mul_(1.05)
    limits = OptimSettings(**values)  # type: ignore[arg-type]
    return Updater(
        policy,
        optimizer,
        scheduler,
        algorithm=algorithm,
        settings=limits,
        temperature=temperature,
        reference=other,
    )


def run(updater: Updater, batch: Batch, seed: int = 0) -> tuple[list[MicroStep], list[StepReport]]:
    events = list(updater.update(batch, ADVANTAGES, seed))
    return (
        [event for event in events if isinstance(event, MicroStep)],
        [event for event in events if isinstance(event, StepReport)],
    )


def weights(updater: Updater) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in updater.policy.parameters()])


def level(name: str) -> AlgorithmConfig:
    return AlgorithmConfig(importance_level=ImportanceLevel(name), **BAND)  # type: ignore[arg-type]


@pytest.mark.parametrize("context", list(ContextMode))
@pytest.mark.parametrize("name", [member.value for member in ImportanceLevel])
def test_micro_batches_change_no_gradient(name: str, context: ContextMode) -> None:
    # Two passes, so that the second has ratios other than 1 and the trajectory means matter.
    small, large = (
        make(level(name), passes=2, learning_rate=0.5, max_tokens_per_microbatch=tokens) for tokens in (16, 100_000)
    )
    start = weights(small)
    micro, reports = run(small, batch_of(small.policy, context))
    whole, same = run(large, batch_of(large.policy, context))
    assert (len(micro) > 2, len(whole)) == (True, 2)
    for one, other in zip(reports, same, strict=True):
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-5)
    assert float((weights(large) - start).norm()) > 1e-3
    assert float((weights(small) - weights(large)).abs().max()) < 1e-6
    assert sum(float(step.loss.loss.detach()) for step in micro) == pytest.approx(
        sum(float(step.loss.loss.detach()) for step in whole), abs=1e-6
    )
    late = [float((step.loss.ratio[step.tokens.sampled] - 1).abs().max()) for step in micro[len(micro) // 2 :]]
    assert max(late) > 1e-4


@pytest.mark.parametrize("row", ["sampo_trajectory", "cispo", "sapo", "dr_grpo", "reinforce"])
def test_micro_batches_change_no_gradient_of_named_algorithms(row: str) -> None:
    small, large = (
        make(ALGORITHMS[row], passes=2, learning_rate=0.3, max_tokens_per_microbatch=n) for n in (16, 100_000)
    )
    run(small, batch_of(small.policy))
    run(large, batch_of(large.policy))
    assert float((weights(small) - weights(large)).abs().max()) < 1e-6


def test_trajectory_means_are_those_of_the_whole_episode_however_it_is_cut() -> None:
    updater = make(level("trajectory"), passes=2, learning_rate=0.5, max_tokens_per_microbatch=16)
    micro, _ = run(updater, batch_of(updater.policy))
    ratios: dict[int, set[float]] = {}
    for step in micro[len(micro) // 2 :]:
        for row, episode in enumerate(step.tokens.episode.tolist()):
            values = step.loss.ratio[row][step.tokens.sampled[row]]
            ratios.setdefault(episode, set()).update(round(float(value), 5) for value in values)
    assert {len(values) for values in ratios.values()} == {1}
    assert len({value for values in ratios.values() for value in values}) > 1


@pytest.mark.parametrize("name", [member.value for member in ImportanceLevel])
def test_leaving_out_the_scoring_pass_of_a_single_step_changes_nothing(name: str) -> None:
    short, scored = (make(level(name), max_tokens_per_microbatch=32) for _ in range(2))
    batch = batch_of(short.policy)
    values = scored.score(batch)
    assert all(value.logp_old is not None for value in values)
    list(scored.update(batch, ADVANTAGES, 0, scored=values))
    micro, _ = run(short, batch)
    assert all(bool((step.tokens.logp_old == step.tokens.logp_new).all()) for step in micro)
    assert float((weights(short) - weights(scored)).abs().max()) < 1e-6


@pytest.mark.parametrize("context", list(ContextMode))
def test_entropies_of_turns_are_means_over_their_own_tokens(context: ContextMode) -> None:
    updater = make(level("token"), max_tokens_per_microbatch=40)
    batch = batch_of(updater.policy, context)
    found = turn_entropies(updater.score(batch), len(batch.table))
    (step,), _ = run(make(level("token")), batch)
    groups = turns(step.tokens)
    assert step.tokens.entropy is not None
    np.testing.assert_allclose(found, groups.mean(step.tokens.clean(step.tokens.entropy)).numpy(), atol=1e-6)
    gone = batch.without(np.isin(batch.table.turn, [1]) & (context is ContextMode.WINDOW))
    less = turn_entropies(updater.score(gone), len(batch.table))
    if context is ContextMode.WINDOW:
        assert np.isnan(less[batch.table.turn == 1]).all()
        assert np.isfinite(less[batch.table.turn != 1]).all()


def test_advantages_reach_exactly_the_tokens_of_their_turn() -> None:
    for context in ContextMode:
        updater = make(level("token"))
        (step,), _ = run(updater, batch_of(updater.policy, context))
        sampled = step.tokens.sampled
        found = {
            int(s): float(a)
            for s, a in zip(step.tokens.segment[sampled], step.tokens.advantage[sampled], strict=True)
        }
        assert found == pytest.approx(dict(enumerate(ADVANTAGES)))
        assert bool((step.tokens.segment[~sampled] == NO_SEGMENT).all())


def logp_at(policy: Any, row: TokenRow, temperature: float) -> torch.Tensor:
    """Return the log-probabilities of a row's sampled tokens, straight from the logits."""
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([row.ids])).logits[0]
    logp = torch.log_softmax(logits / temperature, dim=-1)
    return torch.stack([logp[at - 1, token] for at, token in enumerate(row.ids) if row.mask[at]])


@pytest.mark.parametrize("passes", [1, 2])
def test_policy_old_policy_and_reference_are_evaluated_at_the_sampling_temperature(passes: int) -> None:
    # One pass leaves out the scoring of the old policy, two need it.
    updater = make(level("token"), temperature=0.6, passes=passes)
    start = tiny_policy()
    batch = batch_of(updater.policy)
    tokens = next(event for event in updater.update(batch, ADVANTAGES, 0) if isinstance(event, MicroStep)).tokens
    found_turns = tokens.segment.max(-1).values.tolist()
    assert sorted(found_turns) == list(range(len(batch.rows)))
    for place, turn in enumerate(found_turns):
        for name, policy in (("logp_new", start), ("logp_old", start), ("logp_ref", updater.reference)):
            found = getattr(tokens, name)[place][tokens.sampled[place]].detach()
            torch.testing.assert_close(found, logp_at(policy, batch.rows[turn], 0.6), atol=1e-5, rtol=0)


def test_only_logits_that_predict_a_sampled_token_carry_gradient() -> None:
    updater = make(AlgorithmConfig(clip="none"), reference=False)  # type: ignore[arg-type]
    batch = batch_of(updater.policy)
    base = weights(updater)
    run(updater, batch)
    moved = weights(updater)
    # Other ids behind the last sampled token, or another prompt mask, would have to change nothing.
    twin = make(AlgorithmConfig(clip="none"), reference=False)  # type: ignore[arg-type]
    tailed = tuple(
        TokenRow((*row.ids, 5, 6), (*row.mask, False, False), (*(row.segments or ()), -1, -1), row.episode)
        for row in batch.rows
    )
    run(twin, replace(batch, rows=tailed))
    assert float((moved - base).norm()) > 0
    assert float((weights(twin) - moved).abs().max()) < 1e-6


def test_minibatches_repeat_from_their_seed_and_hold_every_row_once() -> None:
    updater = make(level("token"), minibatch_rows=3)
    rows = batch_of(updater.policy).rows
    plan = updater._minibatches(rows, 7)
    assert plan == updater._minibatches(rows, 7)
    assert plan != updater._minibatches(rows, 8)
    assert sorted(index for minibatch in plan for index in minibatch) == list(range(len(rows)))
    assert [len(minibatch) for minibatch in plan] == [3, 3, 2]
    sizes = {
        size: [len(part) for part in make(level("token"), minibatch_rows=size)._minibatches(rows, 7)]
        for size in (5, 7)
    }
    assert sizes == {5: [4, 4], 7: [4, 4]}  # nothing left over, which would get a step of its own


@pytest.mark.parametrize("seed", range(5))
def test_trajectory_level_minibatches_keep_episodes_whole(seed: int) -> None:
    updater = make(level("trajectory"), minibatch_rows=3)
    rows = batch_of(updater.policy).rows
    plan = updater._minibatches(rows, seed)
    where = [{rows[index].episode for index in minibatch} for minibatch in plan]
    assert sum(len(episodes) for episodes in where) == len(set(EPISODES))
    assert sorted(index for minibatch in plan for index in minibatch) == list(range(len(rows)))


def test_every_pass_takes_a_step_a_minibatch_and_reports_the_sampler_once() -> None:
    updater = make(level("token"), minibatch_rows=4, passes=3, learning_rate=0.01)
    micro, reports = run(updater, batch_of(updater.policy))
    assert len(reports) == 6
    with_sampler = [step for step in micro if step.sampler_logp is not None]
    assert len(with_sampler) == 2
    assert updater.scheduler.steps == 6


def test_a_gradient_that_is_not_finite_skips_the_step_and_is_told() -> None:
    updater = make(level("token"))
    batch = batch_of(updater.policy)
    before = weights(updater)
    broken = ADVANTAGES.copy()
    broken[2] = np.inf
    events = list(updater.update(batch, broken, 0))
    (report,) = [event for event in events if isinstance(event, StepReport)]
    assert not report.applied
    assert torch.equal(weights(updater), before)
    assert updater.scheduler.steps == 0
    _, (healthy,) = run(updater, batch)
    assert healthy.applied
    assert bool(torch.isfinite(weights(updater)).all())


def test_a_learning_rate_of_0_keeps_weights_and_losses() -> None:
    updater = make(level("turn"), learning_rate=0.0)
    before = weights(updater)
    losses = []
    for seed in range(3):
        micro, _ = run(updater, batch_of(updater.policy), seed)
        losses.append(sum(float(step.loss.loss.detach()) for step in micro))
    assert torch.equal(weights(updater), before)
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-6)


def test_gradients_are_clipped_and_the_norm_is_that_before() -> None:
    free, clipped = make(level("token")), make(level("token"), grad_clip=0.01)
    start = weights(free)
    _, (one,) = run(free, batch_of(free.policy))
    _, (other,) = run(clipped, batch_of(clipped.policy))
    assert one.grad_norm == pytest.approx(other.grad_norm)
    assert one.grad_norm > 0.01
    assert float((weights(clipped) - start).norm()) == pytest.approx(0.1 * 0.01, rel=1e-3)


def test_a_limit_of_0_clips_nothing() -> None:
    free, off = make(level("token")), make(level("token"), grad_clip=0.0)
    _, (one,) = run(free, batch_of(free.policy))
    _, (other,) = run(off, batch_of(off.policy))
    assert one == other
    assert one.grad_norm > 0
    assert torch.equal(weights(free), weights(off))


def test_a_batch_without_rows_takes_no_step() -> None:
    updater = make(level("token"))
    empty = replace(batch_of(updater.policy), rows=())
    assert list(updater.update(empty, ADVANTAGES, 0)) == []


def test_dropped_turns_leave_the_batch_and_keep_the_advantages_of_the_others() -> None:
    updater = make(level("token"))
    batch = batch_of(updater.policy)
    dropped = np.array([episode == 1 for episode in EPISODES])
    (step,), _ = run(updater, batch.without(dropped))
    assert set(step.tokens.segment[step.tokens.sampled].tolist()) == {0, 1, 2, 5, 6, 7}
    whole = batch_of(updater.policy, ContextMode.FULL).without(dropped)
    assert {row.episode for row in whole.rows} == {0, 2, 3}

"""Rows of equal tokens go through the model once, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.update.test_updater import BAND, batch_of, level, make, run, weights
from trainers.policy.dedup import Kinds
from trainers.policy.policy import Policy
from trainers.policy.token_rows import NO_SEGMENT, TokenRow
from trainers.settings.algorithm import ALGORITHMS, ImportanceLevel
from trainers.update.batch import Batch


def repeating(policy: Policy) -> Batch:
    """Return a batch of eight turns with five different rows; turns and episodes stay what they were."""
    batch = batch_of(policy)
    source = [0, 1, 0, 3, 1, 0, 6, 7]
    rows = []
    for number, place in enumerate(source):
        like = batch.rows[place]
        segments = tuple(number if on else NO_SEGMENT for on in like.mask)
        rows.append(replace(like, segments=segments, episode=batch.rows[number].episode))
    return replace(batch, rows=tuple(rows))


@pytest.mark.parametrize("tokens", [16, 100_000])
@pytest.mark.parametrize("name", [*(member.value for member in ImportanceLevel), "sampo", "cispo", "sapo"])
def test_sharing_changes_no_gradient(name: str, tokens: int) -> None:
    algorithm = replace(ALGORITHMS[name], kl_coef=BAND["kl_coef"]) if name in ALGORITHMS else level(name)
    shared, apart = (
        make(algorithm, passes=2, learning_rate=0.5, max_tokens_per_microbatch=tokens, share_equal_rows=share)
        for share in (True, False)
    )
    start = weights(shared)
    steps, reports = run(shared, repeating(shared.policy))
    others, same = run(apart, repeating(apart.policy))
    assert float((weights(shared) - start).norm()) > 1e-3
    assert float((weights(shared) - weights(apart)).abs().max()) < 1e-6
    for one, other in zip(reports, same, strict=True):
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-5)
    assert sum(int(step.tokens.sampled.sum()) for step in steps) == sum(
        int(step.tokens.sampled.sum()) for step in others
    )


@pytest.mark.parametrize(("share", "expected"), [(True, 5), (False, 8)])
def test_a_kind_of_row_goes_through_policy_and_reference_once(
    share: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = make(level("turn"), passes=2, max_tokens_per_microbatch=40, share_equal_rows=share)
    seen: list[int] = []
    original = Policy.token_stats

    def counting(self: Policy, batch: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(len(batch))
        return original(self, batch, *arguments, **options)

    monkeypatch.setattr(Policy, "token_stats", counting)
    run(updater, repeating(updater.policy))
    assert sum(seen) == 4 * expected  # pi_old, the reference and two passes


def test_equal_rows_keep_their_own_advantages_and_equal_log_probabilities() -> None:
    updater = make(level("token"))
    (step,), _ = run(updater, repeating(updater.policy))
    tokens = step.tokens
    of_turn = {int(tokens.segment[row].max()): row for row in range(len(tokens.mask))}
    first, third = of_turn[0], of_turn[2]
    on = tokens.sampled[first]
    assert torch.equal(tokens.logp_new[first][on], tokens.logp_new[third][on])
    assert float(tokens.advantage[first][on][0]) == 1.0
    assert float(tokens.advantage[third][on][0]) == pytest.approx(0.3)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=20), st.integers(1, 30))
def test_plans_hold_every_row_once_and_keep_kinds_whole_within_the_budget(shapes, budget):
    rows = [TokenRow.from_reply([1] * prompt, [2] * reply) for prompt, reply in shapes]
    kinds = Kinds.of(rows)
    assert [shapes[kinds.first[kind]] for kind in kinds.kind] == shapes
    assert [kinds.kind[index] for index in kinds.first] == list(range(len(kinds.first)))
    plan = kinds.plan([len(row) for row in rows], budget)
    assert sorted(index for part in plan for index in part) == list(range(len(rows)))
    places = [{shapes[index] for index in part} for part in plan]
    assert sum(map(len, places)) == len(set(shapes))
    for part in places:
        assert len(part) * max(map(sum, part)) <= budget or len(part) == 1

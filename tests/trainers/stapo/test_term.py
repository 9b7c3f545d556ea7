"""The selective term: its numbers, its gradient, and that it touches nothing but outlier turns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import DataError
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow, pad_rows
from trainers.run.metrics import METRICS
from trainers.settings.stapo import PenaltyKind, StapoSettings
from trainers.stapo.term import (
    SelectiveReport,
    TurnTerms,
    divergence,
    masked_row,
    plan_selective,
    selective_backward,
    selective_loss,
    turn_terms,
)
from trainers.update.diagnostics import IterationDiagnostics

PLAIN = StapoSettings()
HALF = [0.5, 0.25, 0.25]
EVEN = [1 / 3] * 3


def logs(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def distributions(count: int, width: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, width, generator=generator, dtype=torch.float64).mul(3).log_softmax(-1)


def test_divergence_by_hand() -> None:
    # 0.5 ln 1.5 + 0.5 ln 0.75
    expected = 0.5 * math.log(1.5) + 0.5 * math.log(0.75)
    assert divergence(logs(HALF), logs(EVEN)).item() == pytest.approx(expected)
    assert divergence(logs(HALF), logs(HALF)).item() == 0.0
    # The likeliest token and a bucket of one half against one third and two thirds.
    bucket = 0.5 * math.log(1.5) + 0.5 * math.log(0.5 / (2 / 3))
    assert divergence(logs(HALF), logs(EVEN), top_k=1).item() == pytest.approx(bucket)
    assert divergence(logs(HALF), logs(EVEN), top_k=3).item() == pytest.approx(expected)


def test_tokens_of_probability_zero_give_finite_divergences_and_gradients() -> None:
    logits = torch.tensor([[0.0, -math.inf, 1.0]], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([[0.5, -math.inf, 0.0]], dtype=torch.float64, requires_grad=True)
    for top_k in (0, 1):
        value = divergence(logits.log_softmax(-1), other.log_softmax(-1), top_k)
        assert 0 < value.item() < 1
        value.backward()  # type: ignore[no-untyped-call]
        assert logits.grad is not None and bool(torch.isfinite(logits.grad[:, [0, 2]]).all())


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(0, 10**6), st.integers(1, 12))
def test_top_k_is_a_lower_bound_that_grows_to_the_exact_divergence(width: int, seed: int, top_k: int) -> None:
    p, q = distributions(5, width, seed), distributions(5, width, seed + 1)
    exact, rough = divergence(p, q), divergence(p, q, top_k)
    assert bool((rough <= exact + 1e-9).all())
    assert bool((rough >= -1e-9).all())
    assert bool((divergence(p, q, top_k + 1) >= rough - 1e-9).all())
    torch.testing.assert_close(divergence(p, q, width), exact)


def test_terms_are_means_over_the_tokens_of_a_turn() -> None:
    full, masked = logs(HALF, HALF, EVEN), logs(EVEN, HALF, [0.999, 0.0005, 0.0005])
    turn = torch.tensor([0, 0, 1])
    terms = turn_terms(full, masked, turn, 2, PLAIN)
    kl = 0.5 * math.log(1.5) + 0.5 * math.log(0.75)
    entropy = 0.5 * math.log(2) + 0.5 * math.log(4)
    assert terms.reward.tolist() == pytest.approx([kl / 2, 1.0])  # the last token is cut at 1 nat
    assert terms.entropy.tolist() == pytest.approx([entropy, math.log(3)])
    assert terms.masked_entropy[0].item() == pytest.approx((math.log(3) + entropy) / 2)
    assert terms.capped.tolist() == [0.0, 1.0]
    alone = turn_terms(full, None, turn, 2, PLAIN)
    assert (alone.reward.tolist(), alone.masked_entropy.tolist()) == ([0, 0], [0, 0])


def test_a_token_above_the_cap_has_no_gradient() -> None:
    logits = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    masked = logs([0.999, 0.0005, 0.0005], HALF)
    terms = turn_terms(logits.log_softmax(-1), masked, torch.tensor([0, 0]), 1, PLAIN)
    terms.reward.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert not logits.grad[0].any()
    assert logits.grad[1].any()


def terms_of(reward: float, entropy: float, masked: float) -> TurnTerms:
    values = [torch.tensor([value], dtype=torch.float64, requires_grad=True) for value in (reward, entropy, masked)]
    return TurnTerms(*values, capped=torch.zeros(1))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, -0.1 * 0.4 + 0.2 * 0.7 + 0.3 * 0.9),
        ({"penalty": "single"}, -0.1 * 0.4 + 0.2 * 0.7),
        ({"penalty": "none"}, -0.1 * 0.4),
        ({"alpha": 0.0}, 0.2 * 0.7 + 0.3 * 0.9),
        ({"entropy_floor": 0.8}, -0.1 * 0.4 + 0.3 * 0.9),
    ],
)
def test_the_loss_is_divided_by_the_outliers_of_the_minibatch(changes: dict[str, Any], expected: float) -> None:
    chosen = replace(StapoSettings(alpha=0.1, beta=0.2, gamma_s=0.3), **changes)
    assert selective_loss(terms_of(0.4, 0.7, 0.9), chosen, 5).item() == pytest.approx(expected / 5)


def test_an_entropy_below_the_floor_is_not_pushed_down() -> None:
    terms = terms_of(0.4, 0.04, 0.9)
    selective_loss(terms, PLAIN, 1).backward()  # type: ignore[no-untyped-call]
    assert [value.grad.item() for value in (terms.reward, terms.entropy, terms.masked_entropy)] == [  # type: ignore[union-attr]
        pytest.approx(-0.005),
        0.0,
        pytest.approx(0.005),
    ]


def rows_and_masks(policy: Policy) -> tuple[list[TokenRow], dict[int, tuple[int, ...]]]:
    rows = random_rows(policy, [(9, 3), (14, 5), (6, 1), (11, 4)], seed=2)
    return rows, {number: row.ids[4:6] for number, row in enumerate(rows)}


def gradient(policy: Policy) -> torch.Tensor:
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in policy.parameters()]
    )


def backward(policy: Policy, rows: list[TokenRow], masks: Any, chosen: StapoSettings, **changes: Any) -> Any:
    plan = plan_selective(policy, rows, masks, chosen, changes.pop("max_tokens", 100_000))
    values = {"n_outliers": len(rows), "temperature": 1.0, **changes}
    return selective_backward(policy, rows, plan, masks, chosen, **values)


def test_the_gradient_is_that_of_the_formula_on_one_row_at_a_time() -> None:
    policy = tiny_policy()
    chosen = StapoSettings(alpha=0.5, beta=0.2, gamma_s=0.3, entropy_floor=0.0)
    rows, masks = rows_and_masks(policy)
    report, rewards = backward(policy, rows, masks, chosen, temperature=0.7)
    found = gradient(policy)
    policy.model.zero_grad()
    total = torch.zeros(())
    for row in rows:
        start = row.mask.index(True)
        twin = TokenRow.from_reply(masks[row.segments[start]], row.ids[start:])  # type: ignore[index]
        log_p, log_q = (policy.log_distributions(pad_rows([r], policy.pad_id), 0.7) for r in (row, twin))
        p, q = log_p.exp(), log_q.exp()
        reward = (p * (log_p - log_q)).sum(-1).clamp_max(chosen.kappa).mean()
        entropies = (-(p * log_p).sum(-1).mean(), -(q * log_q).sum(-1).mean())
        total = total + (-0.5 * reward + 0.2 * entropies[0] + 0.3 * entropies[1]) / len(rows)
        assert rewards[row.segments[start]] == pytest.approx(reward.item(), abs=1e-6)  # type: ignore[index]
    total.backward()  # type: ignore[no-untyped-call]
    assert report.loss == pytest.approx(total.item(), abs=1e-6)
    assert report.turns == 4
    assert float((gradient(policy) - found).norm()) < 1e-5 * float(found.norm())


def test_micro_batches_change_no_gradient() -> None:
    whole, cut = tiny_policy(), tiny_policy()
    rows, masks = rows_and_masks(whole)
    chosen = StapoSettings(alpha=0.5)
    one, _ = backward(whole, rows, masks, chosen)
    two, _ = backward(cut, rows, masks, chosen, max_tokens=24)
    assert float((gradient(whole) - gradient(cut)).norm()) < 1e-5 * float(gradient(whole).norm())
    assert one.stats() == pytest.approx(two.stats(), abs=1e-6)


def test_two_halves_with_the_count_of_both_add_up_to_the_whole() -> None:
    whole, halves = tiny_policy(), tiny_policy()
    rows, masks = rows_and_masks(whole)
    one, _ = backward(whole, rows, masks, PLAIN)
    parts = [backward(halves, part, masks, PLAIN, n_outliers=4, passes=3)[0] for part in (rows[:1], rows[1:])]
    both = parts[0] + parts[1]
    assert both.loss == pytest.approx(one.loss, abs=1e-6)
    assert float((gradient(whole) - gradient(halves)).norm()) < 1e-5 * float(gradient(whole).norm())


def test_a_mask_that_changes_nothing_gives_no_reward_and_no_gradient() -> None:
    policy = tiny_policy()
    rows, _ = rows_and_masks(policy)
    same = {number: row.ids[: row.mask.index(True)] for number, row in enumerate(rows)}
    report, _ = backward(policy, rows, same, StapoSettings(penalty=PenaltyKind.NONE))
    assert report.stats()["stapo/unmasked_share"] == 1.0
    assert report.reward == pytest.approx(0.0, abs=1e-6)
    assert float(gradient(policy).abs().max()) < 1e-7


def test_a_step_on_the_reward_makes_replies_depend_on_what_was_masked() -> None:
    policy = tiny_policy()
    rows, masks = rows_and_masks(policy)
    chosen = StapoSettings(alpha=1.0, penalty=PenaltyKind.NONE)
    before, _ = backward(policy, rows, masks, chosen)
    with torch.no_grad():
        for weight in policy.parameters():
            if weight.grad is not None:
                weight -= 0.5 * weight.grad
    after, _ = backward(policy, rows, masks, chosen)
    assert after.reward > before.reward


def test_rows_of_several_replies_are_refused() -> None:
    row = TokenRow((1, 2, 3, 4), (False, True, False, True), (-1, 0, -1, 1))
    with pytest.raises(DataError, match="context='window'"):
        masked_row(row, [5])
    with pytest.raises(DataError, match="2 tokens"):
        masked_row(TokenRow((1, 2), (False, False), (-1, -1)), [5])


def test_a_masked_row_keeps_reply_turn_and_episode() -> None:
    row = TokenRow.from_reply([1, 2, 3], [7, 8], segment=4, episode=9)
    twin = masked_row(row, [5])
    assert (twin.ids, twin.mask, twin.episode) == ((5, 7, 8), (False, True, True), 9)
    assert twin.segments == (-1, 4, 4)


def test_reports_become_explained_metrics_and_part_of_the_loss() -> None:
    report = SelectiveReport(
        turns=2, reward=0.4, entropy=3.0, masked_entropy=4.0, capped=1.0, unmasked=0.0, loss=0.5
    )
    assert report.stats()["stapo/reward"] == pytest.approx(0.2)
    assert set(report.stats()) <= set(METRICS)
    assert SelectiveReport().stats() == {}
    diagnostics, other = IterationDiagnostics(), IterationDiagnostics()
    diagnostics.add_term(report)
    other.add_term(report)
    diagnostics.merge([other])
    diagnostics.add_optimiser_step(1.0)
    found = diagnostics.summary()
    assert found["loss/stapo"] == found["loss/total"] == pytest.approx(1.0)
    assert found["stapo/entropy_masked"] == pytest.approx(2.0)

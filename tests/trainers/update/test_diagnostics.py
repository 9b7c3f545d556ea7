from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from agent_gym.support.errors import DataError
from tests.trainers.tensors import Leaf, Reply, window
from trainers.rollout.group_filter import FilterPlan, GroupOutcome
from trainers.run.metrics import METRICS
from trainers.settings.algorithm import ALGORITHMS, AlgorithmConfig
from trainers.stapo.term import SelectiveReport
from trainers.update.advantages import compute_advantages
from trainers.update.diagnostics import IterationDiagnostics, ReplyRows, repeated_actions
from trainers.update.losses import policy_loss
from trainers.update.token_batch import MinibatchTotals
from trainers.update.turn_table import RowTable

BAND = replace(ALGORITHMS["gspo"], kl_coef=0.0)
TOKEN = AlgorithmConfig()


def fed(made: Leaf, config: AlgorithmConfig, **changes: None) -> IterationDiagnostics:
    tokens = replace(made.tokens, **changes)
    diagnostics = IterationDiagnostics()
    totals = MinibatchTotals.of(tokens.mask, tokens.segment)
    diagnostics.add_micro_batch(tokens, policy_loss(tokens, config, totals))
    return diagnostics


def summary(replies: list[Reply], config: AlgorithmConfig, **changes: None) -> dict[str, float]:
    return fed(window(replies, lead=2, tail=3), config, **changes).summary()


def test_turn_level_reference_rows_outside_the_band() -> None:
    replies = [Reply([0.002, 0.006], 1.0), Reply([-0.010, 0.002, -0.004], -1.0), Reply([0.020], -0.5)]
    found = summary(replies, BAND)
    assert found["clip/tokens_above"] == pytest.approx(2 / 6)
    assert found["clip/tokens_below"] == pytest.approx(3 / 6)
    assert found["clip/rows_above"] == found["clip/rows_below"] == pytest.approx(1 / 3)
    assert found["clip/grad_zero_rows_positive"] == pytest.approx(1 / 3)
    assert found["clip/grad_zero_rows_negative"] == pytest.approx(1 / 3)
    assert found["policy/drift"] == pytest.approx(-(0.008 - 0.012 + 0.020) / 6)


def test_token_level_rows_are_placed_by_their_mean_ratio() -> None:
    # One token of the first row is clipped, the row as a whole is inside the band and keeps a gradient.
    found = summary([Reply([0.5, -0.4], 1.0), Reply([-0.5, -0.1], -1.0)], TOKEN)
    assert found["clip/tokens_above"] == pytest.approx(1 / 4)
    assert found["clip/rows_above"] == 0
    assert found["clip/tokens_below"] == pytest.approx(1 / 4)
    assert found["clip/rows_below"] == pytest.approx(1 / 2)
    assert found["clip/grad_zero_rows_negative"] == 0


def test_sequence_masked_rows_have_no_gradient() -> None:
    found = summary([Reply([-0.1], -1.0), Reply([0.1], -1.0)], replace(TOKEN, sequence_mask_delta=3e-3))
    assert found["clip/sequence_masked_rows"] == found["clip/grad_zero_rows_negative"] == 0.5


def test_ratio_quantiles_are_split_by_the_sign_of_the_advantage() -> None:
    rng = np.random.default_rng(0)
    log_ratio = rng.normal(0, 0.1, 400).round(6).tolist()
    found = summary([Reply(log_ratio, 1.0), Reply([0.3], -1.0), Reply([5.0], 0.0)], TOKEN)
    expected = np.percentile(np.exp(log_ratio), [1, 10, 50, 90, 99])
    values = [found[f"ratio/positive_p{q:02d}"] for q in (1, 10, 50, 90, 99)]
    assert values == pytest.approx(expected.tolist(), rel=1e-5)
    assert found["ratio/negative_p50"] == pytest.approx(math.exp(0.3))


def test_kl_is_shared_among_eight_buckets() -> None:
    replies = [
        Reply([0.1, -0.1], 1.0, ref=[-1.9, -2.1], entropy=[1.0, 0.1]),
        Reply([0.1, -0.1], -1.0, ref=[-0.9, -1.1], entropy=[1.0, 0.1]),
        Reply([0.1], 0.0, ref=[-9.0], entropy=[0.5]),
    ]
    found = summary(replies, TOKEN)
    shares = {name: value for name, value in found.items() if name.startswith("kl_share/")}
    assert len(shares) == 8
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["kl_share/pos_up_high"] == pytest.approx(0.5)
    assert shares["kl_share/pos_down_low"] == pytest.approx(0.5)
    assert shares["kl_share/neg_up_low"] == 0


def test_without_a_reference_the_buckets_share_the_drift_from_the_sampler() -> None:
    found = summary([Reply([0.2, 0.0], 1.0, entropy=[1.0, 0.1])], TOKEN, logp_ref=None)
    assert "policy/kl_reference" not in found
    assert found["kl_share/pos_up_high"] == pytest.approx(1.0)


def test_metrics_without_input_are_left_out() -> None:
    assert IterationDiagnostics().summary() == {}
    found = summary([Reply([0.1], 1.0)], TOKEN, entropy=None)
    assert "policy/entropy" not in found
    assert not any(name.startswith("ratio/negative_p") for name in found)


def test_a_minibatch_without_sampled_tokens_adds_nothing() -> None:
    made = window([Reply([0.1], 1.0)])
    diagnostics = fed(made, TOKEN)
    tokens = replace(made.tokens, mask=torch.zeros_like(made.tokens.mask))
    before = diagnostics.summary()
    diagnostics.add_micro_batch(tokens, policy_loss(tokens, TOKEN, MinibatchTotals(0, 0)))
    assert diagnostics.summary() == before


def test_the_cut_into_micro_batches_and_ranks_does_not_change_the_summary() -> None:
    replies = [Reply([0.3, -0.1], 1.0), Reply([-0.4], -1.0), Reply([0.1, 0.1], -0.2)]
    config = replace(BAND, kl_coef=0.01)
    whole = fed(window(replies), config)
    whole.add_optimiser_step(0.5)
    totals = MinibatchTotals(5, 3)
    ranks = []
    for reply in replies:
        rank = IterationDiagnostics()
        tokens = window([reply]).tokens
        rank.add_micro_batch(tokens, policy_loss(tokens, config, totals))
        rank.add_optimiser_step(0.5)
        ranks.append(pickle.loads(pickle.dumps(rank)))
    ranks[0].merge(ranks[1:])
    assert ranks[0].summary() == pytest.approx(whole.summary())


def test_repeated_action_needs_the_same_state_of_the_same_episode() -> None:
    assert repeated_actions([0, 0, 1, 0, 0], ["a", "b", "a", "a", "a"], ["go"] * 4 + ["look"]) == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_reply_rates() -> None:
    diagnostics = IterationDiagnostics()
    flags = [True, True, False, True]
    diagnostics.add_replies(
        ReplyRows(
            [0, 0, 1, 1], ["s"] * 4, ["a", "a", "a", "b"], [2, 4, 6, 8], [False, False, True, False], flags, flags
        )
    )
    found = diagnostics.summary()
    assert found["replies/length"] == 5
    assert found["replies/cut_share"] == found["replies/repeated_action"] == 0.25
    assert found["replies/valid_format"] == found["replies/valid_action"] == 0.75
    with pytest.raises(DataError, match="equal length"):
        ReplyRows([0], ["s"], ["a"], [2], [False], [], [True])


def test_sampler_gap_reads_sampled_tokens_only() -> None:
    diagnostics = IterationDiagnostics()
    mask = torch.tensor([[0, 1, 1]])
    diagnostics.add_sampler_gap(torch.tensor([[9.0, -1.0, -2.0]]), torch.tensor([[0.0, -1.1, -1.7]]), mask)
    found = diagnostics.summary()
    assert found["policy/sampler_gap"] == pytest.approx(0.2)
    assert found["policy/sampler_gap_max"] == pytest.approx(0.3)


def test_unexplained_metrics_are_refused() -> None:
    with pytest.raises(DataError, match="no explanation"):
        IterationDiagnostics().add_stats({"mystery": 1.0})


def test_a_full_iteration_reports_every_explained_metric_in_order() -> None:
    made = window([Reply([0.3, -0.1], 1.0), Reply([-0.4], -1.0)])
    diagnostics = fed(made, replace(BAND, kl_coef=0.01))
    diagnostics.add_term(SelectiveReport(turns=1.0, loss=0.1))
    diagnostics.add_optimiser_step(0.5)
    diagnostics.add_replies(ReplyRows([0], ["s"], ["a"], [2], [False], [True], [True]))
    diagnostics.add_sampler_gap(made.tokens.logp_old, made.tokens.logp_old, made.tokens.mask)
    table = RowTable(
        group=np.zeros(2, dtype=int),
        episode=np.arange(2),
        turn=np.zeros(2, dtype=int),
        reward=np.array([0.0, 1.0]),
        penalty=np.zeros(2),
        anchor=("s", "s"),
        n_tokens=np.ones(2, dtype=int),
    )
    diagnostics.add_stats(compute_advantages(table, ALGORITHMS["sampo"]).stats)
    plan = FilterPlan.start(1, ALGORITHMS["sampo"], 0).add([GroupOutcome(0, (0.0, 1.0), (False, True))])
    diagnostics.add_stats(plan.stats())
    found = diagnostics.summary()
    assert list(found) == [name for name in METRICS if name in found]
    # The training loop adds counters of its own to these families, and STAPO's outliers come with its algorithms.
    assert {name.split("/")[0] for name in set(METRICS) - set(found)} <= {
        "curriculum",
        "optim",
        "rollout",
        "stapo",
        "warning",
    }
    assert all(math.isfinite(value) for value in found.values())


def test_explanations_are_one_sentence_each() -> None:
    for name, text in METRICS.items():
        assert text[0].isupper() or text[0].isdigit(), name
        assert text.endswith("."), name
        assert ". " not in text, name


def test_low_negative_rows_are_counted_whatever_the_band() -> None:
    replies = [Reply([-0.5, -0.1], -1.0), Reply([-0.5, 0.3], -1.0), Reply([-0.5], 1.0), Reply([0.1], -1.0)]
    for config in (TOKEN, BAND, replace(ALGORITHMS["cispo"], kl_coef=0.0)):
        assert summary(replies, config)["ratio/negative_rows_low"] == pytest.approx(1 / 4)

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agent_gym.support.errors import DataError
from tests.trainers.tensors import Reply, full, window
from trainers.update.token_batch import MinibatchTotals, turns


def test_totals_count_sampled_tokens_and_turns_of_both_contexts_alike() -> None:
    replies = [Reply([0.1, 0.2], 1.0), Reply([0.3], 1.0), Reply([0.3], 1.0, episode=1)]
    for made in (window(replies, tail=4), full(replies)):
        assert MinibatchTotals.of(made.tokens.mask, made.tokens.segment) == MinibatchTotals(4, 3)


def test_a_turn_whose_mask_is_off_still_counts_as_a_sequence() -> None:
    made = window([Reply([0.1, 0.2], 1.0), Reply([0.3], 1.0)])
    mask = made.tokens.mask.clone()
    mask[1] = 0
    assert MinibatchTotals.of(mask, made.tokens.segment) == MinibatchTotals(2, 2)


def test_totals_add_over_micro_batches_and_ranks() -> None:
    assert MinibatchTotals.sum([MinibatchTotals(3, 1), MinibatchTotals(0, 0)]) == MinibatchTotals(3, 1)
    with pytest.raises(DataError, match="at least 0"):
        MinibatchTotals(-1, 0)


def test_turn_means_ignore_padding() -> None:
    made = window([Reply([0.1, 0.3], 1.0), Reply([0.5], 1.0)], tail=5)
    groups = turns(made.tokens)
    values = made.tokens.clean(made.tokens.logp_new - made.tokens.logp_old)
    assert groups.mean(values).tolist() == pytest.approx([0.2, 0.5])
    spread = groups.spread(groups.n_tokens)
    assert spread[made.tokens.sampled].tolist() == [2, 2, 1]
    assert not spread[~made.tokens.sampled].any()


def test_malformed_batches_are_refused() -> None:
    tokens = window([Reply([0.1], 1.0), Reply([0.5], 1.0)]).tokens
    with pytest.raises(DataError, match=r"logp_old must have shape \(2, 3\)"):
        replace(tokens, logp_old=torch.zeros(2, 4))
    with pytest.raises(DataError, match=r"episode must have shape \(2,\)"):
        replace(tokens, episode=torch.zeros(3))
    with pytest.raises(DataError, match="segment -1"):
        replace(tokens, segment=torch.full_like(tokens.segment, -1))
    with pytest.raises(DataError, match="two rows share a segment"):
        replace(tokens, segment=tokens.segment.clamp(max=0))

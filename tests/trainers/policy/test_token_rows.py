from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.errors import DataError
from trainers.policy.token_rows import NO_SEGMENT, TokenRow, pad_rows, plan_microbatches

ROWS = st.lists(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.lists(st.integers(0, 9), max_size=6)),
    min_size=1,
    max_size=6,
)


@given(ROWS)
def test_every_row_can_be_read_back_from_the_padded_tensors(pairs):
    rows = [TokenRow.from_reply(p, r, segment=i, episode=i // 2) for i, (p, r) in enumerate(pairs)]
    batch = pad_rows(rows, pad_id=9)
    for index, (row, (prompt, reply)) in enumerate(zip(rows, pairs, strict=True)):
        real = batch.attention_mask[index].bool()
        assert batch.input_ids[index][real].tolist() == [*prompt, *reply]
        assert batch.position_ids[index][real].tolist() == list(range(len(row)))
        assert batch.input_ids[index][batch.mask[index]].tolist() == reply
        assert batch.segment[index][batch.mask[index]].tolist() == [index] * len(reply)
        assert set(batch.segment[index][~batch.mask[index]].tolist()) <= {NO_SEGMENT}
        assert batch.weight[index].sum() == len(reply)
        assert batch.episode[index] == index // 2
    assert batch.n_tokens == sum(row.reply_tokens for row in rows)


def test_a_real_end_token_keeps_its_weight_when_padding_has_the_same_id():
    end = 7
    batch = pad_rows(
        [TokenRow.from_reply([1, 2], [3, end]), TokenRow.from_reply([1, end, 2, 3], [end])], pad_id=end
    )
    assert batch.mask.tolist() == [[False, False, True, True, False], [False, False, False, False, True]]
    assert batch.weight[batch.input_ids == end].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_sampled_ids_are_kept_when_two_id_lists_share_one_text():
    vocabulary = {0: "a", 1: "b", 2: "ab"}
    sampled = [(0, 1), (2,)]
    assert {"".join(vocabulary[token] for token in ids) for ids in sampled} == {"ab"}
    batch = pad_rows([TokenRow.from_reply([1], ids) for ids in sampled], pad_id=0)
    assert [batch.input_ids[i][batch.mask[i]].tolist() for i in range(2)] == [[0, 1], [2]]


def test_masked_values_never_enter_the_tensors():
    row = TokenRow(
        (1, 2, 3),
        (False, True, False),
        weights=(5.0, 0.5, float("nan")),
        logprobs=(float("nan"), -1.0, float("-inf")),
    )
    longer = TokenRow.from_reply([1, 2, 3], [4], logprobs=[-0.25])
    batch = pad_rows([row, longer], pad_id=0)
    assert batch.weight.tolist() == [[0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    assert batch.sampler_logp is not None
    assert batch.sampler_logp.tolist() == [[0.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, -0.25]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": (), "mask": ()}, "at least one token"),
        ({"ids": (1, 2), "mask": (False,)}, "expected 2, got 1"),
        ({"ids": (1,), "mask": (True,)}, "first token"),
        ({"ids": (1, 2), "mask": (False, True), "segments": (-1, -1)}, "exactly where mask is False"),
        ({"ids": (1, 2), "mask": (False, True), "logprobs": (0.0,)}, "logprobs must have one entry"),
    ],
)
def test_malformed_rows_are_refused_with_the_reason(arguments, message):
    with pytest.raises(DataError, match=message):
        TokenRow(**arguments)


def test_ids_become_a_tensor_once_however_often_a_row_is_padded():
    row = TokenRow.from_reply([1, 2], [3])
    pad_rows([row], pad_id=0)
    before = row.tensors["ids"]
    pad_rows([row, TokenRow.from_reply([1, 2, 3], [4, 5])], pad_id=0)
    assert row.tensors["ids"] is before


def test_a_column_that_one_row_lacks_is_no_column_unless_it_has_a_value_to_stand_in():
    with_both = TokenRow.from_reply([1], [2], logprobs=[-0.5], weights=[0.25])
    batch = pad_rows([with_both, TokenRow.from_reply([1], [2])], pad_id=0)
    assert batch.sampler_logp is None
    assert batch.weight.tolist() == [[0.0, 0.25], [0.0, 1.0]]


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 120))
def test_microbatches_hold_every_row_once_within_the_budget(lengths, budget):
    plan = plan_microbatches(lengths, budget)
    assert sorted(index for part in plan for index in part) == list(range(len(lengths)))
    for part in plan:
        assert len(part) * max(lengths[index] for index in part) <= budget or len(part) == 1
    assert plan == plan_microbatches(list(lengths), budget)


def test_rows_move_to_a_device_together():
    batch = pad_rows([TokenRow.from_reply([1], [2], logprobs=[-0.5])], pad_id=0).to(torch.device("cpu"))
    assert batch.sampler_logp is not None
    assert len(batch) == 1

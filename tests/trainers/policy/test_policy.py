from __future__ import annotations

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy import logprobs
from trainers.policy.devices import resolve_device, resolve_dtype
from trainers.policy.policy import Policy
from trainers.policy.token_rows import NO_SEGMENT, TokenRow, pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.sampling import SamplingSettings

LENGTHS = [(3, 4), (9, 2), (5, 6), (12, 1)]


def gradients(policy):
    found = torch.cat([p.grad.flatten() for p in policy.parameters()])
    policy.model.zero_grad()
    return found


def whole_logits(policy, row):
    return policy.model(input_ids=torch.tensor([row.ids])).logits[0].float()


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_scores_are_those_of_the_full_logits_at_the_sampling_temperature(temperature):
    policy = tiny_policy()
    rows = random_rows(policy, LENGTHS)
    stats = policy.token_stats(pad_rows(rows, policy.pad_id), temperature, greedy=True)
    for index, row in enumerate(rows):
        logp_TV = torch.log_softmax(whole_logits(policy, row) / temperature, -1)
        for place, (token, sampled) in enumerate(zip(row.ids, row.mask, strict=True)):
            if sampled:
                before = logp_TV[place - 1]
                torch.testing.assert_close(stats.logp[index, place], before[token], atol=1e-5, rtol=0)
                entropy = -(before.exp() * before).sum()
                torch.testing.assert_close(stats.entropy[index, place], entropy, atol=1e-5, rtol=1e-5)
                assert stats.greedy[index, place] == (before.argmax() == token)


def silent_row(width):
    """A row without a sampled token, which pads the others to its width."""
    return TokenRow((1,) * width, (False,) * width, (NO_SEGMENT,) * width)


@pytest.mark.parametrize("extra", [0, 7])
def test_padding_changes_neither_scores_nor_gradients(extra):
    policy = tiny_policy()
    rows = random_rows(policy, LENGTHS)
    alone = []
    for row in rows:
        stats = policy.token_stats(pad_rows([row], policy.pad_id))
        (stats.logp.sum() + 0.5 * stats.entropy.sum()).backward()
        alone.append(stats.logp[0][torch.tensor(row.mask)])
    expected = gradients(policy)
    batch = pad_rows([*rows, silent_row(max(map(len, rows)) + extra)], policy.pad_id)
    stats = policy.token_stats(batch)
    for index, values in enumerate(alone):
        torch.testing.assert_close(stats.logp[index][batch.mask[index]], values, atol=1e-5, rtol=0)
    (stats.logp.sum() + 0.5 * stats.entropy.sum()).backward()
    torch.testing.assert_close(gradients(policy), expected, atol=1e-5, rtol=1e-4)


def test_positions_outside_the_mask_are_exactly_zero():
    policy = tiny_policy()
    batch = pad_rows([*random_rows(policy, LENGTHS), silent_row(20)], policy.pad_id)
    stats = policy.token_stats(batch, greedy=True)
    assert (stats.logp[~batch.mask] == 0).all()
    assert (stats.entropy[~batch.mask] == 0).all()
    assert not stats.greedy[~batch.mask].any()
    assert (stats.logp[batch.mask] < 0).all()


def test_gradients_reach_only_logits_that_predict_sampled_tokens():
    policy = tiny_policy()
    prompt = policy.encode_chat([{"role": "user", "content": "up or down?"}])
    glue = policy.encode("\nnext")
    first, second = policy.encode("up"), policy.encode("down")
    ids = (*prompt, *first, *glue, *second)
    mask = [False] * len(prompt) + [True] * len(first) + [False] * len(glue) + [True] * len(second)
    row = TokenRow(ids, tuple(mask), tuple(-1 if not on else int(i > len(prompt) + 2) for i, on in enumerate(mask)))
    seen = []
    head = policy.model.get_output_embeddings()
    handle = head.register_forward_hook(lambda module, args, out: seen.append((args[0], out)))
    policy._reader.separable  # noqa: B018  the probe runs the head too
    seen.clear()
    stats = policy.token_stats(pad_rows([row], policy.pad_id))
    handle.remove()
    ((hidden, logits),) = seen
    assert hidden.shape[0] == logits.shape[0] == sum(mask)
    assert (stats.logp[0] != 0).tolist() == mask


def test_two_turns_in_one_row_score_as_two_rows():
    policy = tiny_policy()
    one, two = random_rows(policy, [(4, 3), (5, 2)])
    joined = TokenRow((*one.ids, *two.ids), (*one.mask, *two.mask), (*one.segments, *two.segments))
    stats = policy.token_stats(pad_rows([joined], policy.pad_id))
    later = TokenRow.from_reply((*one.ids, *two.ids[:5]), two.ids[5:])
    torch.testing.assert_close(
        stats.logp[0][:7], policy.token_stats(pad_rows([one], policy.pad_id)).logp[0], atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        stats.logp[0][7:], policy.token_stats(pad_rows([later], policy.pad_id)).logp[0][7:], atol=1e-5, rtol=0
    )


def test_a_batch_without_sampled_tokens_scores_zero_and_still_has_a_graph():
    policy = tiny_policy()
    stats = policy.token_stats(pad_rows([TokenRow((1, 2, 3), (False,) * 3)], policy.pad_id))
    assert (stats.logp == 0).all()
    stats.logp.sum().backward()
    assert all((p.grad == 0).all() for p in policy.parameters() if p.grad is not None)


def test_the_head_in_chunks_equals_the_head_at_once(monkeypatch):
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, LENGTHS), policy.pad_id)
    whole = policy.token_stats(batch)
    (whole.logp.sum() + whole.entropy.sum()).backward()
    expected = gradients(policy)
    monkeypatch.setattr(logprobs, "_LOGITS_PER_CHUNK", 3 * len(policy.tokenizer))
    parts = policy.token_stats(batch)
    torch.testing.assert_close(parts.logp, whole.logp, atol=1e-6, rtol=0)
    (parts.logp.sum() + parts.entropy.sum()).backward()
    torch.testing.assert_close(gradients(policy), expected, atol=1e-5, rtol=1e-4)


def saved_logits(policy, batch, **options):
    """Return the scores of a batch, and how many tensors as large as its logits the graph keeps."""
    n = int(batch.mask.sum()) * len(policy.tokenizer)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda value: sizes.append(value.numel()) or value, lambda v: v):
        stats = policy.token_stats(batch, **options)
    return stats, sum(size >= n for size in sizes)


def test_a_sharded_model_whose_head_runs_inside_its_forward_keeps_no_logits_either(monkeypatch):
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, LENGTHS), policy.pad_id)
    whole = policy.token_stats(batch, greedy=True)
    (whole.logp.sum() + whole.entropy.sum()).backward()
    expected = gradients(policy)
    policy.renew_reader(policy.separable)
    monkeypatch.setattr(type(policy.model), "unshard", lambda self: None, raising=False)  # as FSDP's models have it
    monkeypatch.setattr(logprobs, "_LOGITS_PER_CHUNK", 3 * len(policy.tokenizer))
    parts, kept = saved_logits(policy, batch, greedy=True)
    assert kept == 0
    torch.testing.assert_close(parts.logp, whole.logp, atol=1e-6, rtol=0)
    torch.testing.assert_close(parts.entropy, whole.entropy, atol=1e-5, rtol=0)
    assert torch.equal(parts.greedy, whole.greedy)
    (parts.logp.sum() + parts.entropy.sum()).backward()
    torch.testing.assert_close(gradients(policy), expected, atol=1e-5, rtol=1e-4)
    assert "forward" not in vars(policy.model.get_output_embeddings())


def test_entropies_that_are_only_looked_at_hold_no_logits():
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, LENGTHS), policy.pad_id)
    (looked_at, few), (trained, many) = (saved_logits(policy, batch, entropy_gradient=on) for on in (False, True))
    assert torch.equal(looked_at.entropy, trained.entropy)
    assert not looked_at.entropy.requires_grad and trained.entropy.requires_grad
    assert few < many


def test_models_that_cap_their_logits_are_scored_with_the_cap():
    tiny = tiny_policy()
    config = Gemma2Config(
        vocab_size=len(tiny.tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        final_logit_softcapping=0.05,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy = Policy(Gemma2ForCausalLM(config), tiny.tokenizer, device="cpu")
    assert not policy._reader.separable
    (row,) = random_rows(tiny, [(4, 5)])
    logp_TV = torch.log_softmax(whole_logits(policy, row), -1)
    stats = policy.token_stats(pad_rows([row, silent_row(12)], policy.pad_id))
    for place in range(4, 9):
        torch.testing.assert_close(stats.logp[0, place], logp_TV[place - 1, row.ids[place]], atol=1e-5, rtol=0)


def test_whole_distributions_are_row_major_and_normalised():
    policy = tiny_policy()
    rows = random_rows(policy, LENGTHS)
    batch = pad_rows(rows, policy.pad_id)
    logp_NV = policy.log_distributions(batch, 0.7)
    torch.testing.assert_close(logp_NV.exp().sum(-1), torch.ones(len(logp_NV)))
    stats = policy.token_stats(batch, 0.7)
    chosen = logp_NV.gather(-1, batch.input_ids[batch.mask][:, None])[:, 0]
    torch.testing.assert_close(chosen, stats.logp[batch.mask])


def test_impossible_logits_give_finite_entropy():
    logp = torch.log_softmax(torch.tensor([[0.0, float("-inf"), 0.0]]), -1).requires_grad_()
    entropy = logprobs.entropy_of(logp)
    assert entropy.item() == pytest.approx(0.693147, abs=1e-5)
    entropy.sum().backward()
    assert not logp.grad[:, [0, 2]].isnan().any()


def test_autocast_keeps_scores_in_float32_and_near_those_without_it():
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, LENGTHS), policy.pad_id)
    plain = policy.token_stats(batch)
    mixed = Policy(policy.model, policy.tokenizer, device="cpu", autocast="bfloat16").token_stats(batch)
    assert mixed.logp.dtype is torch.float32
    torch.testing.assert_close(mixed.logp, plain.logp, atol=0.05, rtol=0.05)


def test_reference_copy_is_frozen_and_apart():
    policy = tiny_policy()
    twin = policy.reference_copy()
    before = twin.checksum()
    assert before == policy.checksum()
    with torch.no_grad():
        policy.parameters()[0].add_(0.1)
    assert twin.checksum() == before != policy.checksum()
    assert twin.parameters() == []
    assert twin.token_stats(pad_rows(random_rows(policy, [(2, 2)]), 0)).logp.grad_fn is None


def test_one_optimiser_step_moves_the_checksum_and_a_zero_rate_does_not():
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, LENGTHS), policy.pad_id)
    seen = [policy.checksum()]
    for rate in (0.0, 1e-2):
        optimizer = torch.optim.AdamW(policy.parameters(), lr=rate, weight_decay=0.0)
        (-policy.token_stats(batch).logp.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(policy.checksum())
    assert seen[0] == seen[1] != seen[2]


def test_weights_come_back_in_place(tmp_path):
    policy = tiny_policy()
    policy.save(tmp_path)
    saved, held = policy.checksum(), policy.parameters()
    state = torch.get_rng_state()
    with torch.no_grad():
        for value in held:
            value.mul_(1.5)
    policy.load_weights(tmp_path)
    assert policy.checksum() == saved
    assert all(a is b for a, b in zip(held, policy.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_loading_what_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"no folder .*nothing; give the folder"):
        Policy.load(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"is not a model's: it holds no config\.json"):
        Policy.load(tmp_path)
    with pytest.raises(DataError, match="allow_downloads=True if it is the id"):
        Policy.load("nobody/nothing")
    with pytest.raises(DataError, match="does not hold weights"):
        tiny_policy().load_weights(tmp_path)


def test_unknown_devices_dtypes_and_temperatures_are_refused():
    with pytest.raises(ConfigError, match="device must be"):
        resolve_device("gpu please")
    with pytest.raises(ConfigError, match="dtype must be one of"):
        resolve_dtype("int3")
    with pytest.raises(ConfigError, match="temperature must be a positive number, got 0"):
        tiny_policy().token_stats(pad_rows([TokenRow.from_reply([1], [2])], 0), temperature=0.0)


def test_a_tokenizer_without_chat_template_is_named():
    policy = tiny_policy()
    twin = Policy(
        policy.model,
        type(policy.tokenizer)(tokenizer_object=policy.tokenizer.backend_tokenizer, eos_token="<|end|>"),
        device="cpu",
    )
    with pytest.raises(ConfigError, match="no chat template"):
        twin.encode_chat([{"role": "user", "content": "x"}])
    assert twin.pad_id in twin.eos_ids


def test_recomputing_activations_changes_no_result_and_leaves_sampling_cached():
    policy = tiny_policy()
    batch = pad_rows(random_rows(policy, LENGTHS), policy.pad_id)
    stats = policy.token_stats(batch)
    stats.logp.sum().backward()
    expected = gradients(policy)
    prompts, settings = [row.ids for row in random_rows(policy, LENGTHS)], SamplingSettings(max_reply_tokens=4)
    sampled = HFSampler(policy).generate(prompts, settings, torch.Generator().manual_seed(0))
    calls = []
    layer = policy.model.get_decoder().layers[0]
    handle = layer.mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    policy.enable_gradient_checkpointing()
    again = policy.token_stats(batch)
    assert not policy.model.training
    again.logp.sum().backward()
    handle.remove()
    assert len(calls) == 2
    assert torch.equal(again.logp, stats.logp)
    torch.testing.assert_close(gradients(policy), expected)
    assert HFSampler(policy).generate(prompts, settings, torch.Generator().manual_seed(0)) == sampled


@pytest.mark.slow
def test_a_sharded_policy_scores_as_a_whole_one(tmp_path):
    distributed = pytest.importorskip("torch.distributed")
    from torch.distributed.fsdp import fully_shard

    whole, sharded = tiny_policy(), tiny_policy()
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        for layer in sharded.model.get_decoder().layers:
            fully_shard(layer)
        fully_shard(sharded.model)
        batch = pad_rows(random_rows(whole, LENGTHS), whole.pad_id)
        expected, found = whole.token_stats(batch), sharded.token_stats(batch)
        torch.testing.assert_close(found.logp, expected.logp)
        expected.logp.sum().backward()
        found.logp.sum().backward()
        for one, other in zip(whole.parameters(), sharded.parameters(), strict=True):
            torch.testing.assert_close(other.grad.full_tensor(), one.grad)
        assert sharded.checksum() == whole.checksum()
    finally:
        distributed.destroy_process_group()

"""Model folders as people bring them: damaged, of other kinds, with settings and templates of their own."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers import runs
from tests.trainers.policy.families import tokenizer, write_model
from tests.trainers.runs import new_run, small_config, train
from tests.trainers.toys import random_rows
from trainers.policy.loading import prepare_training
from trainers.policy.policy import Policy
from trainers.policy.recompute import check_recomputation
from trainers.policy.token_rows import pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.sampling import SamplingSettings

LENGTHS = [(3, 4), (9, 2)]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "llama", "llama")


@pytest.fixture
def folder(tmp_path, llama):
    return shutil.copytree(llama, tmp_path / "model")


def load(folder):
    return Policy.load(folder, device="cpu")


def edit(file, **values):
    found = json.loads(file.read_text("utf-8")) | values
    file.write_text(json.dumps(found), "utf-8")


def scores(policy):
    return policy.token_stats(pad_rows(random_rows(policy, LENGTHS), policy.pad_id), entropy=False).logp


# Kinds that write no text from left to right ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True}, "'t5', which reads with an encoder"),
        ({"model_type": "bart", "is_encoder_decoder": True}, "'bart', which reads with an encoder"),
        ({"model_type": "whisper", "is_encoder_decoder": True}, "'whisper', which reads with an encoder"),
        ({"model_type": "bert"}, "'bert', which fills gaps"),
        ({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]}, "as RobertaForMaskedLM fills gaps"),
        ({"model_type": "distilbert"}, "'distilbert', which fills gaps"),
        ({"model_type": "vit"}, r"sees images only \(a vision model\)"),
        ({"model_type": "resnet", "architectures": ["ResNetForImageClassification"]}, "classifies images"),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "a reward model"),
        ({"model_type": "wav2vec2"}, "has no causal language model"),
    ],
)
def test_other_kinds_of_models_are_refused_with_a_sentence(folder, config, why):
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(DataError, match=why):
        load(folder)


def test_a_decoder_that_looks_ahead_is_refused_by_name(tmp_path):
    from transformers import RobertaConfig, RobertaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"vocab_size": len(tokenizer()), "eos_token_id": tokenizer().eos_token_id}
    config = RobertaConfig(**sizes, **ids, max_position_embeddings=64, initializer_range=0.2)
    model = RobertaForCausalLM(config)
    with pytest.raises(DataError, match="'roberta' cannot be trained here: a later token changes an earlier one"):
        Policy(model, tokenizer(), device="cpu").behaviour  # noqa: B018


# Damaged folders -------------------------------------------------------------------------------------------


def without_a_layer(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def without_the_head(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def cut(name, share=0.5):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return damage


def replace(name, text):
    return lambda folder: (folder / name).write_text(text, "utf-8")


def other_sizes(folder):
    edit(folder / "config.json", hidden_size=48, num_attention_heads=6)


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (without_a_layer, r"not whole: the model needs 'model.layers.1.mlp.up_proj.weight'"),
        (without_the_head, r"not whole: the model needs 'lm_head.weight'"),
        (cut("model.safetensors"), "no causal LM with safetensors weights"),
        (cut("model.safetensors", 0.0), "no causal LM with safetensors weights"),
        (pickled, "no causal LM with safetensors weights"),
        (other_sizes, "no causal LM with safetensors weights|not whole"),
        (cut("tokenizer.json"), "no tokenizer can be read"),
        (replace("tokenizer.json", "{}"), "no tokenizer can be read"),
        (replace("tokenizer_config.json", "[]"), "no tokenizer can be read"),
        (replace("tokenizer_config.json", "{"), "no tokenizer can be read"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer can be read"),
        (cut("config.json"), "no causal LM with safetensors weights"),
        (replace("config.json", '{"model_type": "not-yet-known"}'), "no causal LM.*not-yet-known"),
    ],
)
def test_damaged_folders_are_refused_with_what_is_wrong(folder, damage, what):
    damage(folder)
    with pytest.raises(DataError, match=what):
        load(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(folder, value):
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][:] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"'llama' gives log-probabilities that are not finite"):
        load(folder)


@pytest.mark.parametrize("tied", [True, False])
def test_tied_and_untied_heads_come_back_as_they_were(tmp_path, tied):
    policy = load(write_model(tmp_path / "base", "qwen2", tie_word_embeddings=tied))
    policy.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.checksum() == policy.checksum()
    assert again.n_parameters == policy.n_parameters
    model = again.model
    shared = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert shared == tied


# Tokenizers and embeddings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("short", [1, 40])
def test_a_tokenizer_larger_than_the_embedding_is_refused_with_both_numbers(tmp_path, short):
    rows = len(tokenizer()) - short
    folder = write_model(tmp_path / "model", "llama", vocab_size=rows)
    with pytest.raises(DataError, match=rf"ids up to {len(tokenizer()) - 1}, but .* has {rows} rows"):
        load(folder)


@pytest.mark.parametrize(("family", "greedy"), [("llama", False), ("llama", True), ("mamba", False)])
def test_ids_without_text_are_never_drawn_and_scores_stay_the_models(tmp_path, family, greedy):
    written = len(tokenizer())
    policy = load(write_model(tmp_path / "model", family, vocab_size=written * 4))
    settings = SamplingSettings(max_reply_tokens=8, greedy=greedy, top_p=0.9 if not greedy else 1.0)
    prompts = [row.ids[:4] for row in random_rows(policy, [(4, 1)] * 20)]
    replies = HFSampler(policy).generate(prompts, settings, torch.Generator().manual_seed(0))
    assert max(max(reply.ids) for reply in replies) < written
    (row,) = random_rows(policy, [(4, 5)])
    logits_TV = policy.model(input_ids=torch.tensor([row.ids]), use_cache=False).logits[0]
    expected = logits_TV.log_softmax(-1)[3, row.ids[4]]
    torch.testing.assert_close(policy.token_stats(pad_rows([row], 0)).logp[0, 4], expected, atol=1e-5, rtol=0)


# Settings of a checkpoint ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("mixtral", {"output_router_logits": True}),
        ("qwen2_moe", {"output_router_logits": True, "router_aux_loss_coef": 5.0}),
        ("llama", {"output_hidden_states": True}),
        ("llama", {"return_dict": False}),
        ("gpt2", {"output_hidden_states": True, "use_cache": False}),
    ],
)
def test_a_checkpoints_settings_do_not_change_what_is_computed_and_are_kept(tmp_path, family, settings):
    plain, asked = write_model(tmp_path / "plain", family), write_model(tmp_path / "asked", family)
    edit(asked / "config.json", **settings)
    policy = load(asked)
    sampling = SamplingSettings(max_reply_tokens=4)
    prompts = [row.ids for row in random_rows(policy, LENGTHS)]

    def drawn(one):
        return HFSampler(one).generate(prompts, sampling, torch.Generator().manual_seed(1))

    assert drawn(policy) == drawn(load(plain))
    assert torch.equal(scores(policy), scores(load(plain)))
    policy.save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text("utf-8"))
    assert {name: saved.get(name, settings[name]) for name in settings} == settings


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("opt", {"dropout": 0.3, "layerdrop": 0.5}),
        ("falcon", {"hidden_dropout": 0.3, "attention_dropout": 0.2}),
        ("bloom", {"hidden_dropout": 0.3, "attention_dropout": 0.2}),
        ("phimoe", {"router_jitter_noise": 0.3, "input_jitter_noise": 0.3}),
        ("gpt2", {"resid_pdrop": 0.3, "attn_pdrop": 0.3, "embd_pdrop": 0.3}),
        ("mixtral", {"router_jitter_noise": 0.3}),
        ("biogpt", {"hidden_dropout_prob": 0.3, "layerdrop": 0.5, "activation_dropout": 0.3}),
    ],
)
def test_nothing_is_random_while_activations_are_recomputed(tmp_path, family, settings):
    folder = write_model(tmp_path / "model", family, **settings)
    policy, recomputing = load(folder), load(folder)
    recomputing.enable_gradient_checkpointing()
    check_recomputation(recomputing)
    expected, found = scores(policy), scores(recomputing)
    assert torch.equal(found, expected)
    expected.sum().backward()
    found.sum().backward()
    for one, other in zip(recomputing.parameters(), policy.parameters(), strict=True):
        if other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_a_family_that_recomputes_wrongly_is_refused_where_the_setting_asks_for_it(tmp_path):
    folder = write_model(tmp_path / "model", "zamba2")
    config = small_config(f"model.path={folder}", "optim.gradient_checkpointing=true")
    with pytest.raises(ConfigError, match=r"'zamba2' say something else.*set optim.gradient_checkpointing=false"):
        prepare_training(load(folder), config)


def test_sampling_without_a_cache_is_said_in_a_line(tmp_path):
    folder = write_model(tmp_path / "model", "mamba")
    (note,) = prepare_training(load(folder), small_config(f"model.path={folder}"))
    assert note.startswith("Models of family 'mamba' are sampled without a cache here")


# Chat templates --------------------------------------------------------------------------------------------

TURNS = (
    "{% for m in messages %}<|user|>{{ m['content'] }}END{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def template(folder, text):
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    edit(folder / "tokenizer_config.json", chat_template=text)
    return folder


def notes(folder, *settings):
    return prepare_training(load(folder), small_config(f"model.path={folder}", *settings))


@pytest.mark.parametrize("end", ["<|assistant|>", "\n<|user|>"])
def test_the_templates_own_end_is_taught_where_the_model_ends_with_it(folder, end):
    own = tokenizer().convert_tokens_to_ids(end.strip())
    edit(folder / "generation_config.json", eos_token_id=[tokenizer().eos_token_id, own])
    policy = load(template(folder, TURNS.replace("END", end)))
    assert policy.end_id == own
    assert policy.notes() == []


@pytest.mark.parametrize("end", ["<|assistant|>", "  <|user|>\n"])
def test_a_template_that_ends_turns_with_another_token_is_named(folder, end):
    policy = load(template(folder, TURNS.replace("END", end)))
    assert policy.end_id == tokenizer().eos_token_id
    (note,) = policy.notes()
    assert f"ends a turn with {end.strip()!r}" in note
    assert repr(tokenizer().eos_token) in note


@pytest.mark.parametrize("end", ["", "\n\n"])
def test_a_template_that_ends_turns_with_no_special_token_is_taken_as_it_is(folder, end):
    policy = load(template(folder, TURNS.replace("END", end)))
    assert policy.end_id == tokenizer().eos_token_id
    assert policy.notes() == []


@pytest.mark.parametrize("form", ["'%d %b %Y'", '"%Y-%m-%d"', "\n '%H:%M' "])
def test_a_template_that_reads_the_clock_gives_the_same_prompt_on_every_day(folder, form):
    policy = load(template(folder, "{{ strftime_now(" + form + ") }}" + TURNS))
    text = policy.decode(policy.encode_chat([{"role": "user", "content": "x"}]))
    assert text.startswith(("01 Jan 2026", "2026-01-01", "12:00"))
    (note,) = (note for note in policy.notes() if "clock" in note)
    assert "01 January 2026" in note


DROPPING = (
    "{% for m in messages %}<|user|>"
    "{{ m['content'].split('</think>')[-1] if not loop.last else m['content'] }}<|end|>{% endfor %}"
)


def test_a_template_that_drops_earlier_thoughts_is_named_in_full_context_only(folder):
    template(folder, DROPPING)
    (note,) = notes(folder, "env.context=full")
    assert "leaves thoughts out of earlier replies" in note
    assert notes(folder) == []


@pytest.mark.parametrize("text", [None, ""])
def test_a_folder_without_a_chat_template_is_refused_before_anything_is_played(folder, text):
    template(folder, text)
    with pytest.raises(ConfigError, match="no chat template"):
        notes(folder)


@pytest.mark.slow
def test_a_run_trains_a_model_without_a_usable_cache_and_resumes_to_the_same_weights(tmp_path):
    base = write_model(tmp_path / "base", "mamba")
    settings = (f"model.path={base}", "cloning.episodes=0", "iterations=2", "rollout.max_context_tokens=512")
    whole = new_run(tmp_path / "whole", *settings, cold=False)
    done = train(whole)
    for metrics in runs.metrics(whole.path):
        assert metrics["policy/sampler_gap"] < 1e-4
    part = new_run(tmp_path / "part", *settings, cold=False)
    asked = iter([False, True])
    train(part, lambda: next(asked, True))
    assert train(part)["checksum"] == done["checksum"]

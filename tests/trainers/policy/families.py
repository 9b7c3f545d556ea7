"""Tiny random models of many families, and what this trainer can do with each: the rows of docs/models.md.

`python -m tests.trainers.policy.families` writes the table of that page anew; `test_families.py` makes the rows
again and compares them with it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agent_gym.support.errors import ConfigError
from tests.trainers.toys import corpus, random_rows
from trainers.policy.lora import add_lora
from trainers.policy.policy import Policy
from trainers.policy.recompute import check_recomputation
from trainers.policy.storage import no_progress_bars
from trainers.policy.tiny import build_tokenizer
from trainers.policy.token_rows import PaddedRows, TokenRow, pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.settings.lora import LoraSettings
from trainers.settings.sampling import SamplingSettings

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
LARGEST_GAP = 1e-4
"""Nats by which sampler and trainer may differ on a token."""
_LENGTHS = [(3, 4), (9, 2), (5, 6), (12, 1)]
_YES = "yes"

_SIZES: dict[str, Any] = {
    # The same size has another name in many families; each takes those that it knows.
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "lru_width", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "context_length"), 128),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "moe_k", "moe_topk"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim"), 4),
    **dict.fromkeys(("sliding_window", "attention_window_size"), 6),
    **dict.fromkeys(("state_size", "mamba_d_state", "ssm_state_size", "time_step_rank", "mamba_dt_rank"), 8),
    **dict.fromkeys(("mamba_d_head", "mamba_headdim", "mamba_head_dim"), 16),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads", "mamba_d_conv"), 4),
    **dict.fromkeys(("mamba_n_groups", "mamba_ngroups", "n_groups"), 1),
    **dict.fromkeys(("chunk_size", "mamba_chunk_size"), 8),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 8),
    "mamba_expand": 2,
    "n_mamba_heads": 2,
    "mamba_d_ssm": 64,
    "moe_layer_start_index": 0,
    "initializer_range": 0.2,
    "bos_token_id": None,
}
_HALF_LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
_LATENT = {"head_dim": 4, "num_key_value_heads": 4}

_ALIKE = """
afmoe apertus arcee biogpt bitnet bloom codegen cohere cohere2 diffllama doge dots1 ernie4_5 exaone4 falcon
falcon_h1 falcon_mamba gemma gemma2 gemma3_text glm glm4 glm4_moe gpt2 gpt_bigcode gpt_neox gpt_oss gptj
granite granitemoe granitemoeshared helium hunyuan_v1_dense hunyuan_v1_moe llama mamba minimax_m2 ministral
ministral3 mistral mixtral mpt nemotron olmo olmo2 olmo3 olmoe opt persimmon phi phi3 phimoe qwen2 qwen2_moe
qwen3 qwen3_moe seed_oss smollm3 stablelm starcoder2 xlstm
"""
FAMILIES: dict[str, dict[str, Any]] = {
    **{name: {} for name in _ALIKE.split()},
    "bamba": {"attn_layer_indices": [1]},
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "ernie4_5_moe": {},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 6},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"head_dim": 16},
    "minimax": _HALF_LINEAR,
    "nemotron_h": {},
    "olmo_hybrid": {},
    "qwen3_5_text": _HALF_LINEAR,
    "qwen3_next": _HALF_LINEAR,
    "recurrent_gemma": {"num_hidden_layers": 3},
    "rwkv": {"attention_hidden_size": 32, "num_hidden_layers": 7},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"]},
}


@functools.cache
def tokenizer() -> Any:
    """Return the tokenizer that all of them have."""
    return build_tokenizer(corpus())


def config_of(family: str, **settings: Any) -> Any:
    """Return a configuration of a family with the smallest sizes; `settings` come last."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[family]
    known = {*inspect.signature(kind.__init__).parameters, *getattr(kind, "__dataclass_fields__", {})}
    ids = {
        "vocab_size": len(tokenizer()),
        "pad_token_id": tokenizer().pad_token_id,
        "eos_token_id": tokenizer().eos_token_id,
    }
    sizes = {name: value for name, value in _SIZES.items() if name in known}
    return kind(**{**sizes, **ids, **FAMILIES.get(family, {}), **settings})


def write_model(folder: Path, family: str, **settings: Any) -> Path:
    """Write a model with random weights, and the tokenizer, as a user's folder; returns the folder."""
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]), no_progress_bars():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config_of(family, **settings)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Row:
    """What a family can do; each field but `gap` reads "yes", or says what is missing.

    Attributes:
        family: Its name in transformers.
        sampled: "cache", or "whole rows" where a token costs a pass over its row.
        gap: Largest difference of sampler and trainer, nats on a token.
        update: One step changes the weights.
        checkpoint: What is saved gives the same scores in plain transformers.
        resume: A step after loading gives the weights that one without loading gives, bit for bit.
        adapters: They are trained, saved and loaded.
        recomputed: Recomputed activations give the same scores bit for bit, and the same gradients.
    """

    family: str
    sampled: str
    gap: float
    update: str
    checkpoint: str
    resume: str
    adapters: str
    recomputed: str

    def text(self) -> str:
        """Return the row of the page's table."""
        results = (self.update, self.checkpoint, self.resume, self.adapters, self.recomputed)
        return f"| `{self.family}` | {self.sampled} | {self.gap:.0e} | {' | '.join(results)} |"


def row_of(family: str, folder: Path) -> Row:
    """Try everything with a tiny model of a family.

    Args:
        family: Its name in transformers.
        folder: An empty folder for files.
    """
    base = write_model(folder / "base", family)
    policy = Policy.load(base, device="cpu")
    sampled = "cache" if policy.behaviour.cached else "whole rows"
    gap = _sampler_gap(policy)
    recomputed, adapters = _recomputed(policy), _adapters(policy, folder)
    before = policy.checksum()
    _step(policy)
    update = _said(policy.checksum() != before)
    policy.save(folder / "saved")
    checkpoint = _said(_plain_gap(policy, folder / "saved") < LARGEST_GAP)
    again = Policy.load(folder / "saved", device="cpu")
    same = again.checksum() == policy.checksum()
    _step(policy)
    _step(again)
    resume = _said(same and again.checksum() == policy.checksum())
    return Row(family, sampled, gap, update, checkpoint, resume, adapters=adapters, recomputed=recomputed)


def _said(right: bool) -> str:
    return _YES if right else "no"


def _batch(policy: Policy) -> PaddedRows:
    return pad_rows(random_rows(policy, _LENGTHS), policy.pad_id)


def _step(policy: Policy) -> None:
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    (-policy.token_stats(_batch(policy), entropy=False).logp.mean()).backward()
    optimizer.step()
    optimizer.zero_grad()


def _sampler_gap(policy: Policy) -> float:
    prompts = [row.ids for row in random_rows(policy, _LENGTHS)] * 2
    settings = SamplingSettings(max_reply_tokens=8)
    samples = HFSampler(policy).generate(prompts, settings, torch.Generator().manual_seed(0))
    rows = [TokenRow.from_reply(prompt, sample.ids) for prompt, sample in zip(prompts, samples, strict=True)]
    with torch.no_grad():
        batch = pad_rows(rows, policy.pad_id)
        scored = policy.token_stats(batch, entropy=False).logp[batch.mask]
    said = torch.tensor([value for sample in samples for value in sample.logprobs])
    return float((scored - said).abs().max())


def _plain_gap(policy: Policy, folder: Path) -> float:
    """Return the gap to plain transformers, which reads each row by itself."""
    from transformers import AutoModelForCausalLM

    with no_progress_bars():
        plain = AutoModelForCausalLM.from_pretrained(folder).eval()
    batch = _batch(policy)
    with torch.no_grad():
        scored = policy.token_stats(batch, entropy=False).logp
        gaps = []
        for number, row in enumerate(random_rows(policy, _LENGTHS)):
            logits_TV = plain(input_ids=torch.tensor([row.ids]), use_cache=False).logits[0]
            logp_T = logits_TV.log_softmax(-1)[:-1].gather(-1, torch.tensor(row.ids[1:])[:, None])[:, 0]
            mask = torch.tensor(row.mask[1:])
            gaps.append((logp_T - scored[number, 1 : len(row.ids)])[mask].abs().max())
    return float(max(gaps))


def _twin(policy: Policy) -> Policy:
    return policy.with_model(copy.deepcopy(policy.model))


def _recomputed(whole: Policy) -> str:
    results = []
    for recompute in (False, True):
        policy = _twin(whole)
        if recompute:
            policy.enable_gradient_checkpointing()
            try:
                check_recomputation(policy)
            except ConfigError:
                return "refused"
        logp_BT = policy.token_stats(_batch(policy), entropy=False).logp
        logp_BT.sum().backward()
        gradients = [torch.zeros(1) if value.grad is None else value.grad for value in policy.parameters()]
        results.append((logp_BT.detach(), gradients))
    (plain, expected), (again, found) = results
    same = all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(found, expected, strict=True))
    return _said(torch.equal(plain, again) and same)


def _adapters(whole: Policy, folder: Path) -> str:
    policy = add_lora(_twin(whole), LoraSettings(rank=2))
    before = policy.checksum()
    _step(policy)
    policy.save(folder / "adapters")
    again = Policy.load(folder / "adapters", device="cpu")
    return _said(before != policy.checksum() == again.checksum() and _sampler_gap(again) < LARGEST_GAP)


def read_rows() -> dict[str, str]:
    """Return the rows of the page's table, by family."""
    table = PAGE.read_text("utf-8").partition("| family |")[2].partition("\n\n")[0]
    return {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}


def write_page() -> None:
    """Write the table of the page anew."""
    rows = []
    for family in sorted(FAMILIES):
        print(family, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row_of(family, Path(folder)).text())
    lines = PAGE.read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| family")) + 2
    end = next(number for number in range(start, len(lines) + 1) if lines[number : number + 1] in ([], [""]))
    PAGE.write_text("\n".join([*lines[:start], *rows, *lines[end:]]) + "\n", "utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_page()

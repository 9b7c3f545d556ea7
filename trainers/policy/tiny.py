"""A small policy built on the spot: tokenizer trained on the environment's own text, random weights.

Everything else treats it as any Hugging Face model. What is left out: it knows nothing until it is cloned
from an expert (`trainers.cold_start.cloning`), and its chat template is the least that keeps turns apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from trainers.policy.policy import Policy
from trainers.settings.tiny import END, PAD, SPECIAL, TinySpec

__all__ = ["CHAT_TEMPLATE", "TinySpec", "build_tiny", "build_tokenizer", "tiny_model"]

_MAX_CELLS = 64

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '" + END + "' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def build_tokenizer(corpus: Iterable[str], spec: TinySpec | None = None) -> Any:
    """Train a byte-level BPE tokenizer with a chat template on `corpus`.

    Every Unicode string survives `decode(encode(text))`, because the 256 bytes are in the vocabulary. A
    symbol that stands alone between spaces in the corpus (a board cell; the 64 most frequent ones) becomes
    one token together with the space before it.

    Args:
        corpus: Texts of the environment: prompts, observations, actions. They are read once.
        spec: Vocabulary limit and markup.

    Returns:
        A `transformers.PreTrainedTokenizerFast`.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    spec = spec or TinySpec()
    tags = re.compile("|".join(map(re.escape, spec.markup))) if spec.markup else None
    # Tags get tokens of their own below, so their letters must not use up merges.
    texts = [tags.sub("\n", text) if tags else text for text in corpus]
    counts = Counter(word for text in texts for word in text.split() if len(word) == 1)
    cells = sorted(counts, key=lambda cell: (-counts[cell], cell))[:_MAX_CELLS]
    # The trainer merges what is frequent first: this puts each cell, with and without its space, ahead.
    frequent = 1 + max((len(text) for text in texts), default=0) + sum(map(len, texts)) // 64
    emphasis = ((f" {cell}" * frequent + f"\n{cell}" * frequent) for cell in cells)

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocab_size - len(spec.markup),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((*texts, *emphasis), trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in spec.markup])
    wrapped: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=list(SPECIAL[2:]),
        clean_up_tokenization_spaces=False,
        model_max_length=spec.max_positions,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def build_tiny(corpus: Iterable[str], spec: TinySpec | None = None, *, device: str = "cpu") -> Policy:
    """Build a tokenizer for `corpus` and a randomly initialised Qwen2-architecture model for it.

    The weights depend on `spec` and the vocabulary only; the global random generator is left as it was.

    Args:
        corpus: Texts of the environment, see `build_tokenizer`.
        spec: Sizes and seed.
        device: As for `Policy`.

    Returns:
        An untrained policy in float32.
    """
    spec = spec or TinySpec()
    tokenizer = build_tokenizer(corpus, spec)
    model = tiny_model(
        spec,
        len(tokenizer),
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Policy(model, tokenizer, device=device)


def tiny_model(spec: TinySpec, vocab_size: int, **settings: Any) -> Any:
    """Return a randomly initialised model for a vocabulary; further settings go to its configuration."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=spec.hidden,
        intermediate_size=spec.hidden * spec.feed_forward // 2,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.heads,
        max_position_embeddings=spec.max_positions,
        tie_word_embeddings=True,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        return Qwen2ForCausalLM(config)
